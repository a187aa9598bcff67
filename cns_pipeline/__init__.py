"""Spark jobs over the events that every process writes. The service imports nothing of it."""
