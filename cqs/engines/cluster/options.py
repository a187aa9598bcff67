"""The engine's queue attributes."""

from __future__ import annotations

from collections.abc import Mapping

from cqs.engines.contract import QueueRef
from cqs.engines.options import EngineOption, number

NUMBER_OF_SHARDS = "NumberOfShards"
NUMBER_OF_PARTITIONS = "NumberOfPartitions"
NUMBER_MAX = 100


OPTIONS: Mapping[str, EngineOption] = {
    option.name: option
    for option in (
        EngineOption(NUMBER_OF_SHARDS, "1", number(1, NUMBER_MAX), live=True),
        EngineOption(NUMBER_OF_PARTITIONS, "1", number(1, NUMBER_MAX), live=True),
    )
}


def number_of_shards(q: QueueRef) -> int:
    """The number of parts of the queue's cache. Standard queues only: FIFO queues have no cache."""
    return 1 if q.fifo else int(q.option(NUMBER_OF_SHARDS, "1"))


def number_of_partitions(q: QueueRef) -> int:
    """The number of partitions of Cassandra that one process writes to at a time."""
    return 1 if q.fifo else int(q.option(NUMBER_OF_PARTITIONS, "1"))
