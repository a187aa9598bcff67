"""Starts the counters that the environment asks for in every Python process whose PYTHONPATH this directory leads."""

from lab.measure import row_count, statement_count

row_count.start_if_asked()
statement_count.start_if_asked()
