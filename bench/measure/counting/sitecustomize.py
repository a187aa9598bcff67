"""Starts the row counter in every Python process whose PYTHONPATH this directory leads."""

from bench.measure.row_count import start_if_asked

start_if_asked()
