"""Commands that act on queues and topics of a running service, over its REST API."""
