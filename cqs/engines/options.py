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
