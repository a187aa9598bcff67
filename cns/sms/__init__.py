"""SMS: the settings of an account, numbers that opted out, and the sandbox."""
