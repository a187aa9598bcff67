"""`cns doctor`: finds common faults of a service, and names the command that fixes each."""
