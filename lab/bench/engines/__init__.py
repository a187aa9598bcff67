"""Compares the engines of queues, and the naive queue of seed 003: the section `engines` of docs/performance.md."""
