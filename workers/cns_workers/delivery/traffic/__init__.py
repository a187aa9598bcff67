"""Limits the sends to one endpoint at a time, so that slow and dead endpoints are isolated from healthy ones."""
