"""The service behind balancers, and its own TLS."""
