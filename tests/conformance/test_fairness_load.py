"""Consumers with a backlog of one tenant and few messages of another. Time is simulated, so the result does not depend
on the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cqs.engines.contract import Message
from tests.conformance.support import QueueFixture

pytestmark = pytest.mark.needs(fair=True)

CALL_MS = 3
WORK_MS = 50
BACKLOG = 300
QUIET = 4
DWELL_MS_MAX = 150


class _Consumer:
    """Receives ten messages, processes them, deletes them. Calls at the same simulated time are concurrent."""

    def __init__(self, queue: QueueFixture, at_ms: int) -> None:
        self._queue = queue
        self.at_ms = at_ms
        self._held: tuple[Message, ...] = ()

    async def act(self) -> list[Message]:
        """Returns the messages received."""
        if self._held:
            await self._queue.delete(*self._held)
            done, self._held = self._held, ()
            await self._queue.send_entries(
                [self._queue.entry(b"", group="noisy") for one in done if one.group == "noisy"]
            )
            self.at_ms += CALL_MS
            return []
        self._held = await self._queue.take()
        self.at_ms += WORK_MS
        return list(self._held)


async def _dwell_ms(queue: QueueFixture, starts_ms: Sequence[int]) -> list[int]:
    """A noisy tenant's backlog stays at its size. A quiet tenant sends about once a second, each time at another
    phase."""
    await queue.send_entries([queue.entry(b"", group="noisy") for _ in range(BACKLOG)])
    consumers = [_Consumer(queue, queue.now_ms + start_ms) for start_ms in starts_ms]
    to_send_ms = [queue.now_ms + 500 + 997 * n for n in range(QUIET)]
    dwell: list[int] = []
    until_ms = to_send_ms[-1] + 2_000
    while len(dwell) < QUIET and queue.now_ms < until_ms:
        next_ms = min(consumer.at_ms for consumer in consumers)
        if to_send_ms and to_send_ms[0] <= next_ms:
            queue.advance(to_send_ms[0] - queue.now_ms)
            await queue.send(str(to_send_ms.pop(0)).encode(), group="quiet")
            continue
        queue.advance(next_ms - queue.now_ms)
        taken = await asyncio.gather(*[consumer.act() for consumer in consumers if consumer.at_ms == next_ms])
        dwell += [next_ms - int(message.body) for some in taken for message in some if message.group == "quiet"]
    return dwell


@pytest.mark.parametrize(
    "starts_ms",
    [(0, 13, 27, 40), (0, 1, 2, 3), (0, 0, 27, 27), (0, 0, 0, 0)],
    ids=["spread", "close", "pairs", "together"],
)
async def test_a_backlog_does_not_delay_a_quiet_tenant(standard: QueueFixture, starts_ms: tuple[int, ...]) -> None:
    dwell_ms = await _dwell_ms(standard, starts_ms)
    assert len(dwell_ms) == QUIET
    assert max(dwell_ms) <= DWELL_MS_MAX
