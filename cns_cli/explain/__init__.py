"""One message's life, from what was told of it, what is stored, and where it is now."""
