"""Stores in Redis, of what may be lost at any time."""
