"""`cns config …`: a file of queues, topics and subscriptions, and its comparison with a service."""
