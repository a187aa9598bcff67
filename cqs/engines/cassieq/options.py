"""The engine's queue attributes."""

from __future__ import annotations

from collections.abc import Mapping

from cqs.engines.contract import QueueRef
from cqs.engines.options import EngineOption, number, one_of

BUCKET_SIZE = "BucketSize"
ID_RANGE = "IdRange"
STRICT_FIFO = "StrictFifo"
REPAIR_WAIT = "RepairWait"


OPTIONS: Mapping[str, EngineOption] = {
    option.name: option
    for option in (
        EngineOption(BUCKET_SIZE, "20", number(1, 1_000), live=False),
        EngineOption(ID_RANGE, "1000", number(1, 1_000), live=True),
        EngineOption(STRICT_FIFO, "true", one_of("true", "false"), live=True),
        EngineOption(REPAIR_WAIT, "30", number(1, 300), live=True),
    )
}


def bucket_size(q: QueueRef) -> int:
    """The most messages of a bucket."""
    return int(q.option(BUCKET_SIZE, OPTIONS[BUCKET_SIZE].default))


def id_range(q: QueueRef) -> int:
    """The most monotons that one conditional write takes, for the messages that wait for one. 1: as the original."""
    return int(q.option(ID_RANGE, OPTIONS[ID_RANGE].default))


def strict_fifo(q: QueueRef) -> bool:
    """Whether a receive takes the oldest visible messages of a bucket; else it takes any, at random."""
    return q.option(STRICT_FIFO, OPTIONS[STRICT_FIFO].default) == "true"


def repair_wait_ms(q: QueueRef) -> int:
    """How long after its seal a bucket is repaired. Until then late writes may arrive."""
    return int(q.option(REPAIR_WAIT, OPTIONS[REPAIR_WAIT].default)) * 1000
