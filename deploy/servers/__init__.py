"""Runs Cassandra and Redis without Docker, for tests and for operators: `python3 -m deploy.servers`."""
