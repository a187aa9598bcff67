"""The engine's queue attributes."""

from __future__ import annotations

from collections.abc import Mapping

from cqs.engines.contract import QueueRef
from cqs.engines.options import EngineOption

NUMBER_OF_SHARDS = "NumberOfShards"
NUMBER_OF_PARTITIONS = "NumberOfPartitions"
NUMBER_MAX = 100


def _number(text: str) -> str:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= NUMBER_MAX:
        raise ValueError(f"must be a number from 1 to {NUMBER_MAX}")
    return str(int(text))


OPTIONS: Mapping[str, EngineOption] = {
    option.name: option
    for option in (
        EngineOption(NUMBER_OF_SHARDS, "1", _number, live=True),
        EngineOption(NUMBER_OF_PARTITIONS, "1", _number, live=True),
    )
}


def number_of_shards(q: QueueRef) -> int:
    """Into how many parts the queue's cache is divided. Standard queues only: a FIFO queue has none."""
    return 1 if q.fifo else int(q.option(NUMBER_OF_SHARDS, "1"))


def number_of_partitions(q: QueueRef) -> int:
    """Into how many partitions of Cassandra one process writes at a time."""
    return 1 if q.fifo else int(q.option(NUMBER_OF_PARTITIONS, "1"))
