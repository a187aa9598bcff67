"""Jobs of the internal queues: how they are received, settled and quarantined."""
