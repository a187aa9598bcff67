"""What pages show, as values made from events, explanations and forms: no I/O."""
