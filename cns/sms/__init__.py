"""SMS: an account's settings, numbers that opted out, the sandbox."""
