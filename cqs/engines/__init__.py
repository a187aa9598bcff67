"""Queue engines: one contract, and the drivers that implement it."""
