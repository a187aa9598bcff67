"""The floor: the least work a durable queue over HTTP can do here, in the topologies of ADR 0001."""
