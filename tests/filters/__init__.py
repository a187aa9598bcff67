"""Filter policies against oracles: a naive evaluator, and AWS's own rule engine."""
