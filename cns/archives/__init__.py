"""Archives of topics, and replays from them."""
