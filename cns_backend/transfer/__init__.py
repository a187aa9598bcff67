"""Moves one installation between a data directory and a cluster (ADR 0039)."""
