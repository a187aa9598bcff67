"""Clients in other languages: programs that drive a running service through the AWS SDK of their language."""
