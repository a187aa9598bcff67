"""Health of endpoints: what they did in parts of time, what their history lets expect, and where they differ."""
