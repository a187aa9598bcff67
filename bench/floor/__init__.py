"""The yardstick: the least a durable queue over HTTP can do here, in the topologies ADR 0001 compares."""
