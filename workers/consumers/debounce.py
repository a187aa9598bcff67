"""Lets what need not be done at once be done together, so that it is one frame to the store host and one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Beat:
    """Calls what it is given `within_s` of the first, in one turn of the loop and in that order."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._due: list[Callable[[], None]] = []

    def soon(self, call: Callable[[], None]) -> None:
        if not self._due:
            asyncio.get_running_loop().call_later(self._within_s, self._strike)
        self._due.append(call)

    def _strike(self) -> None:
        due, self._due = self._due, []
        for call in due:
            call()
