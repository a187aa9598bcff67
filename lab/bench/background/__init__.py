"""Statements of idle processes, fills of deep queues, and what deletes leave behind."""
