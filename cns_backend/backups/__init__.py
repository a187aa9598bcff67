"""Copies of the embedded store."""
