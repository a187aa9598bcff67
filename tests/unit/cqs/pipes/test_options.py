"""The queue attributes of the engine `pipes`."""

from __future__ import annotations

from cqs.engines.contract import QueueRef
from cqs.engines.pipes.options import options_of


def test_defaults() -> None:
    options = options_of(QueueRef("q", False, 1))
    assert (options.pipe_size, options.width, options.turns, options.locks_queue) == (1000, 8, False, False)


def test_strict_modes_look_at_one_pipe_or_at_all() -> None:
    def strict(mode: str) -> tuple[bool, bool, bool]:
        options = options_of(QueueRef("q", False, 1, options=(("StrictFifo", mode), ("MaxPopWidth", "5"))))
        return options.width == 1, options.width > 5, options.releases_at_once

    assert strict("off") == (False, False, False)
    assert strict("single") == (True, False, False)
    assert strict("locked") == (False, True, True)
