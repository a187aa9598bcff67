"""Starts the sampler in every Python process below `lab.measure.sampler`: this directory leads their PYTHONPATH."""

from lab.measure.sampler import start_if_asked

start_if_asked()
