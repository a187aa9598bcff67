"""The log of administrative acts: who did what to accounts, keys, queues, topics, subscriptions and the service."""
