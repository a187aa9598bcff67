"""Starts the counter that the environment asks for in every Python process whose PYTHONPATH this directory leads."""

from lab.measure.statement_count import start_if_asked

start_if_asked()
