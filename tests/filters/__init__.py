"""Filter policies against oracles: an evaluator without cleverness, and AWS's own rule engine."""
