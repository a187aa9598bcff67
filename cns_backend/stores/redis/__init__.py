"""Stores in Redis, for values that may be lost at any time."""
