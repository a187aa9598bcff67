"""The jobs of one topic begin their sends in the order in which they were received.

Jobs read what they need concurrently; only the start of their sends waits for the jobs before. A job waits for
TURN_WAIT_MAX_S at most, so that one slow read does not stop its topic: then the order is lost, and nothing else.
"""

from __future__ import annotations

import asyncio

TURN_WAIT_MAX_S = 5.0
"""As long as a call waits for a store that restarts: on a machine that stalls for a second the order holds."""


class JobOrder:
    def __init__(self) -> None:
        self._last: dict[str, JobTurn] = {}

    def turn(self, topic: str) -> JobTurn:
        """Returns the turn behind all others of the topic. The caller must end it."""
        turn = JobTurn(self, topic, self._last.get(topic))
        self._last[topic] = turn
        return turn

    def remove(self, topic: str, turn: JobTurn) -> None:
        if self._last.get(topic) is turn:
            del self._last[topic]

    def __len__(self) -> int:
        """Count the topics with jobs that have not begun."""
        return len(self._last)


class JobTurn:
    __slots__ = ("_before", "_ended", "_order", "_topic", "_waiting")

    def __init__(self, order: JobOrder, topic: str, before: JobTurn | None) -> None:
        self._order = order
        self._topic = topic
        self._before = before
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait until the jobs before it have begun, or TURN_WAIT_MAX_S have passed."""
        before, self._before = self._next_open(), None
        if before is None:
            return
        loop = asyncio.get_running_loop()
        too_late = loop.time() + TURN_WAIT_MAX_S
        while before is not None and loop.time() < too_late:
            before._waiting = waiting = loop.create_future()
            timer = loop.call_at(too_late, _release, waiting)
            try:
                await waiting
            finally:
                timer.cancel()
            before = before._next_open() if before._ended else None

    def end(self) -> None:
        """Record that the job has begun, or never will: the next one waits for the jobs before this one, if any."""
        if self._ended:
            return
        self._ended = True
        self._before = self._next_open()
        self._order.remove(self._topic, self)
        if self._waiting is not None:
            _release(self._waiting)

    def _next_open(self) -> JobTurn | None:
        """Returns the nearest turn before this one that has not ended."""
        before = self._before
        while before is not None and before._ended:
            before = before._before
        return before


def _release(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
