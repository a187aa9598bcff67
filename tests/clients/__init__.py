"""Clients in other languages: a program each, which drives a running service through the AWS SDK of its language."""
