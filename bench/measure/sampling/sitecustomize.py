"""Starts the sampler in every Python process below `bench.measure.sampler`: this directory leads their PYTHONPATH."""

from bench.measure.sampler import start_if_asked

start_if_asked()
