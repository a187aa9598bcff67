"""Senders: one per kind of endpoint. Each makes one attempt and returns its outcome as a value."""
