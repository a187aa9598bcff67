"""Filter policies: parse, check and compile them, and find those that a message matches."""
