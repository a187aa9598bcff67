"""The order in which jobs of one topic begin their sends: that in which they were received.

What a job needs is read beside the others; only the beginning of its sends waits for the jobs before it.
"""

from __future__ import annotations

import asyncio


class JobOrder:
    def __init__(self) -> None:
        self._last: dict[str, JobTurn] = {}

    def turn(self, topic: str) -> JobTurn:
        """The turn behind all others of the topic. Its holder must end it."""
        turn = JobTurn(self, topic, self._last.get(topic))
        self._last[topic] = turn
        return turn

    def ended(self, topic: str, turn: JobTurn) -> None:
        if self._last.get(topic) is turn:
            del self._last[topic]

    def __len__(self) -> int:
        """Topics that have jobs which did not begin."""
        return len(self._last)


class JobTurn:
    __slots__ = ("_before", "_ended", "_order", "_topic", "_waiting")

    def __init__(self, order: JobOrder, topic: str, before: JobTurn | None) -> None:
        self._order = order
        self._topic = topic
        self._before = before
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None

    async def come(self) -> None:
        """Wait until the job before it has begun."""
        before, self._before = self._before, None
        if before is not None and not before._ended:
            before._waiting = asyncio.get_running_loop().create_future()
            await before._waiting

    def end(self) -> None:
        """The job has begun, or never will."""
        if self._ended:
            return
        self._ended = True
        self._order.ended(self._topic, self)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
