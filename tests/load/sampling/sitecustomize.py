"""Starts the sampler in every Python process below `tests.load.sampler`: this directory leads their PYTHONPATH."""

from tests.load.sampler import start_if_asked

start_if_asked()
