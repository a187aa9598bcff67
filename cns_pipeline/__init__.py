"""Spark jobs over the events that every process writes. The service does not import this package."""
