"""Whether all processes have heard what one announced: as many have answered as Redis says there are listeners."""

from __future__ import annotations

import asyncio
import itertools


class _Hearing:
    """Of one announcement."""

    def __init__(self) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers = 0
        self._listeners: int | None = None

    def passed_on(self, listeners: int) -> None:
        self._listeners = listeners
        self._look()

    def answered(self) -> None:
        """It may be, before it is known how many are to."""
        self._answers += 1
        self._look()

    def _look(self) -> None:
        if self._listeners is not None and self._answers >= self._listeners:
            self.end()

    def end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


class Hearings:
    """By the announcements' numbers, those that somebody may still wait for."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, _Hearing] = {}

    def begin(self) -> int:
        number = next(self._numbers)
        self._open[number] = _Hearing()
        return number

    def passed_on(self, number: int, listeners: int) -> None:
        if number in self._open:
            self._open[number].passed_on(listeners)

    def answered(self, number: int) -> None:
        if number in self._open:
            self._open[number].answered()

    async def all_over(self, within_s: float) -> None:
        """Until everybody has heard what was announced so far; who has not by then is waited for no more."""
        waited_for = dict(self._open)
        try:
            if waited_for:
                await asyncio.wait([hearing.over for hearing in waited_for.values()], timeout=within_s)
        finally:
            for number, hearing in waited_for.items():
                hearing.end()
                self._open.pop(number, None)
