"""Sites: data centres of one keyspace, of which one at a time is active (ADR 0037)."""
