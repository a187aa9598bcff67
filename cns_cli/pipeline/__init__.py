"""`cns pipeline …`."""
