"""Records values by turns of the event loop."""

from __future__ import annotations

import asyncio


class Turns:
    def __init__(self) -> None:
        self.said: list[list[str]] = []
        self._same_turn = False

    def say(self, what: str) -> None:
        if not self._same_turn:
            self.said.append([])
            self._same_turn = True
            asyncio.get_running_loop().call_soon(self._turn)
        self.said[-1].append(what)

    def _turn(self) -> None:
        self._same_turn = False
