"""The queue attributes of the engine `pipes`."""

from __future__ import annotations

import pytest

from cqs.engines.contract import QueueRef
from cqs.engines.pipes.options import OPTIONS, options_of


@pytest.mark.parametrize(
    ("name", "text", "normal"),
    [
        ("PipeSize", "1", "1"),
        ("PipeSize", "050000", "50000"),
        ("MaxPopWidth", "1000", "1000"),
        ("PopMode", "Turns", "turns"),
        ("StrictFifo", "SINGLE", "single"),
    ],
)
def test_values(name: str, text: str, normal: str) -> None:
    assert OPTIONS[name].check(text) == normal


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PipeSize", "0"),
        ("PipeSize", "50001"),
        ("PipeSize", "-1"),
        ("PipeSize", "x"),
        ("PipeSize", "²"),
        ("PipeSize", ""),
        ("MaxPopWidth", "1001"),
        ("PopMode", "random"),
        ("StrictFifo", "true"),
    ],
)
def test_values_that_are_none(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        OPTIONS[name].check(text)


def test_defaults_are_values() -> None:
    for option in OPTIONS.values():
        assert option.check(option.default) == option.default
    options = options_of(QueueRef("q", False, 1))
    assert (options.pipe_size, options.width, options.turns, options.locks_queue) == (1000, 8, False, False)


def test_strict_modes_look_at_one_pipe_or_at_all() -> None:
    def strict(mode: str) -> tuple[bool, bool, bool]:
        options = options_of(QueueRef("q", False, 1, options=(("StrictFifo", mode), ("MaxPopWidth", "5"))))
        return options.width == 1, options.width > 5, options.releases_at_once

    assert strict("off") == (False, False, False)
    assert strict("single") == (True, False, False)
    assert strict("locked") == (False, True, True)
