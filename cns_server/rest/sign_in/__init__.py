"""Sign-ins with a password: who may, how often, and how many hashes at a time."""
