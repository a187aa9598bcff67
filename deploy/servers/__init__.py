"""Real Cassandra and Redis on a machine without Docker, for tests and for operators: `python3 -m deploy.servers`."""
