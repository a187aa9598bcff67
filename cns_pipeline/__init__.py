"""Spark jobs over the events that every process writes. Nothing here is imported by the service."""
