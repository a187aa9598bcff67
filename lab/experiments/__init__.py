"""The experiments of seeds 003 and 004 at a size that fits one machine, each beside what the seed says of it."""
