"""Programs that attack the service over loopback and count what it costs: `python -m tests.attacks.api`."""
