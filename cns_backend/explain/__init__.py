"""Explains what became of one message: from the events about it, the stores, and the internal queues."""
