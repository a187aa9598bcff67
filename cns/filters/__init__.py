"""Filter policies: read and checked, compiled once, and found by what a message holds."""
