"""The worker process: fan-out, consumers, delivery pools and background work, also inside Celery."""
