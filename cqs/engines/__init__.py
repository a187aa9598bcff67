"""Queue engines: one contract, and the drivers that keep it."""
