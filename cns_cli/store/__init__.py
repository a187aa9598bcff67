"""Commands about the stores: their check, their tables, their servers."""
