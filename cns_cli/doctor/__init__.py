"""`cns doctor`: finds what keeps a service from working, and names the command that mends it."""
