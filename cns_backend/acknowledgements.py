"""Counts the acknowledgements of each announcement. Redis says how many processes received it."""

from __future__ import annotations

import asyncio
import itertools


class _PendingAck:
    """The acknowledgements of one announcement."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._acknowledged = 0
        self._expected: int | None = None

    def expect(self, n: int) -> None:
        self._expected = n
        self._check()

    def acknowledge(self) -> None:
        """May be called before the expected number is known."""
        self._acknowledged += 1
        self._check()

    def _check(self) -> None:
        if self._expected is not None and self._acknowledged >= self._expected:
            self.end()

    def end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class PendingAcks:
    """The announcements that are not acknowledged by all processes yet, by number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._pending: dict[int, _PendingAck] = {}

    def begin(self) -> int:
        """A new announcement; returns its number."""
        number = next(self._numbers)
        self._pending[number] = _PendingAck()
        return number

    def expect(self, number: int, n: int) -> None:
        """`n` processes received the announcement."""
        if number in self._pending:
            self._pending[number].expect(n)

    def acknowledge(self, number: int) -> None:
        """One process acknowledged the announcement."""
        if number in self._pending:
            self._pending[number].acknowledge()

    async def wait(self, timeout_s: float) -> None:
        """Wait until all announcements so far are acknowledged, or the timeout passes; then forget them."""
        pending = dict(self._pending)
        try:
            if pending:
                await asyncio.wait([ack.done for ack in pending.values()], timeout=timeout_s)
        finally:
            for number, ack in pending.items():
                ack.end()
                self._pending.pop(number, None)
