"""The queue attributes of this engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cqs.engines.contract import QueueRef
from cqs.engines.options import EngineOption, number, one_of

OWNED, TURNS = "owned", "turns"
OFF, SINGLE, LOCKED = "off", "single", "locked"
ALL_PIPES = 1_000_000
"""A width that no queue reaches: it never has so many pipes with visible messages."""


_ALL = (
    EngineOption("PipeSize", "1000", number(1, 50_000), live=True),
    EngineOption("MaxPopWidth", "8", number(1, 1_000), live=True),
    EngineOption("PopMode", OWNED, one_of(OWNED, TURNS), live=False),
    EngineOption("StrictFifo", OFF, one_of(OFF, SINGLE, LOCKED), live=False),
)
"""`PipeSize`: the most messages of a pipe. `MaxPopWidth`: the most pipes with visible messages that a popper reads.
`PopMode`: a popper keeps its pipes (`owned`), or takes one message of each pipe in turn (`turns`). `StrictFifo`: one
popper has the queue and its oldest pipe (`single`), or each pop locks the queue and takes the oldest message of all
pipes (`locked`)."""
OPTIONS: Mapping[str, EngineOption] = {option.name: option for option in _ALL}


class PipeOptions(NamedTuple):
    """The options of one queue."""

    pipe_size: int
    width: int
    turns: bool
    strict: str

    @property
    def locks_queue(self) -> bool:
        """Whether one lease covers all pipes of the queue."""
        return self.strict != OFF

    @property
    def releases_at_once(self) -> bool:
        """Whether a popper keeps no lease from one receive to the next."""
        return self.strict == LOCKED or (self.turns and self.strict == OFF)


def options_of(q: QueueRef) -> PipeOptions:
    size, width, mode, strict = (q.option(option.name, option.default) for option in _ALL)
    widths = {OFF: int(width), SINGLE: 1, LOCKED: ALL_PIPES}
    return PipeOptions(int(size), widths[strict], mode == TURNS and strict == OFF, strict)
