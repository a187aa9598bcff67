"""The audit of queues: loss, duplicates and order, as tables, a document and text."""
