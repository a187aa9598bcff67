"""An engine's own queue attributes, for example a bucket size."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class EngineOption(NamedTuple):
    """A queue attribute that only queues of one engine have. Its value is text."""

    name: str
    default: str
    check: Callable[[str], str]
    """Returns the normalised text. Raises ValueError with the reason if it is not a value of the option."""
    live: bool
    """Whether SetQueueAttributes may change it. Else CreateQueue sets it for good."""


def number(least: int, most: int) -> Callable[[str], str]:
    """A check for whole numbers from `least` to `most`."""

    def check(text: str) -> str:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a number from {least} to {most}")
        return str(int(text))

    return check


def one_of(*values: str) -> Callable[[str], str]:
    """A check for one of these lower-case words; the case of the text does not matter."""

    def check(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text.lower()

    return check
