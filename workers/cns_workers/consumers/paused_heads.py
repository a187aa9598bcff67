"""The heads (first jobs) of one queue's message groups that are hidden until their subscriptions are resumed.

A resumption is announced. Announcements may be lost, and there are none in a cluster without Redis: there, the cache of
targets is emptied every few seconds, and then each subscription that has hidden heads here is read again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator, Sequence
from math import ceil

import structlog

from cns.delivery.target import TargetCache
from cns.queue_port.contract import QueuePort
from cns_common.errors import CnsError
from cns_workers.consumers.hidden_lanes import HeadUnhider
from cns_workers.loops import now_s

READ_AT_ONCE = 100
"""Subscriptions in one read of the store."""
READ_PAUSE_S = 0.2
"""The pause between such reads, so that they read at most 500 subscriptions a second."""
HANDLES_BYTES_MAX = 128 * 1024 * 1024
"""The most bytes of handles that are kept: some 3 million handles of the embedded engine, more than a worker can look
at before their times are over. Further heads wait for their next look."""
BUFFER_BYTES = 400
"""The size of a buffer without its handles."""
WAVE_S = 5
"""Handles of heads that become visible within this time are kept together."""

log = structlog.get_logger(__name__)


class HiddenHandles:
    """The handles of hidden heads, by subscription. They are forgotten when their heads become visible by themselves.

    A handle takes its own bytes only, since a worker may hide a million heads. Its message group is not known: a head
    that was hidden twice has two handles, of which the older one has no effect.
    """

    def __init__(self, bytes_max: int = HANDLES_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._buffers: dict[str, dict[int, bytearray]] = {}  # by subscription and wave; a handle is a line
        self._expiries: list[tuple[int, str]] = []  # a heap of waves and subscriptions
        self._n = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._n

    def __contains__(self, subscription: str) -> bool:
        return subscription in self._buffers

    def subscriptions(self) -> list[str]:
        return list(self._buffers)

    def add(self, subscription: str, handle: str, now_s: float, hidden_s: float) -> None:
        """Keep the handle of a head that becomes visible by itself after `hidden_s`. It is not kept beyond
        HANDLES_BYTES_MAX."""
        self.forget_visible(now_s)
        if self._bytes >= self._bytes_max:
            return
        wave = ceil((now_s + hidden_s) / WAVE_S)
        buffers = self._buffers.setdefault(subscription, {})
        buffer = buffers.get(wave)
        if buffer is None:
            buffer = buffers[wave] = bytearray()
            heapq.heappush(self._expiries, (wave, subscription))
            self._bytes += BUFFER_BYTES
        buffer += b"%b\n" % handle.encode()
        self._n += 1
        self._bytes += len(handle) + 1

    def take(self, subscription: str) -> Iterator[str]:
        """Remove the handles of a subscription, and return them. Those first whose heads are visible first."""
        buffers = self._buffers.pop(subscription, {})
        for buffer in buffers.values():
            self._count_out(buffer)
        return _handles([buffers[wave] for wave in sorted(buffers)])

    def forget_visible(self, now_s: float) -> None:
        while self._expiries and self._expiries[0][0] * WAVE_S <= now_s:
            wave, subscription = heapq.heappop(self._expiries)
            buffers = self._buffers.get(subscription, {})
            if wave in buffers:  # else it was taken
                self._count_out(buffers.pop(wave))
                if not buffers:
                    del self._buffers[subscription]

    def _count_out(self, buffer: bytearray) -> None:
        self._n -= buffer.count(b"\n")
        self._bytes -= len(buffer) + BUFFER_BYTES


class PausedHeads:
    def __init__(self, queue: str, port: QueuePort, targets: TargetCache) -> None:
        self._targets = targets
        self._hidden = HiddenHandles()
        self._display = HeadUnhider(queue, port)
        self._reads: set[asyncio.Task[None]] = set()
        self._read_of_all: asyncio.Task[None] | None = None
        targets.changed.append(self._changed)
        targets.all_changed.append(self._all_changed)

    def count(self) -> int:
        """The number of hidden heads."""
        self._hidden.forget_visible(now_s())
        return len(self._hidden)

    async def note(self, subscription: str, handle: str, hidden_s: float) -> None:
        """Note a head that was hidden for this time. If its subscription was resumed meanwhile, show it."""
        self._hidden.add(subscription, handle, now_s(), hidden_s)
        await self._show_if_resumed(subscription)

    def _changed(self, subscription: str) -> None:
        """Show the subscription's heads if it was resumed."""
        if subscription in self._hidden:
            read = asyncio.create_task(self._show_if_resumed(subscription))
            self._reads.add(read)
            read.add_done_callback(self._reads.discard)

    def _all_changed(self) -> None:
        """Show the heads of all subscriptions that were resumed, unless that is under way: the next call comes soon."""
        if self._hidden and (self._read_of_all is None or self._read_of_all.done()):
            self._read_of_all = asyncio.create_task(self._show_all_resumed())

    async def _show_if_resumed(self, subscription: str) -> None:
        try:
            await self._show_resumed([subscription])
        except CnsError as error:
            log.info("paused_subscription.read_failed", subscription=subscription, error=str(error))
            self._display.show(self._hidden.take(subscription))  # a head that is shown in vain is hidden again

    async def _show_all_resumed(self) -> None:
        subscriptions = self._hidden.subscriptions()
        for start in range(0, len(subscriptions), READ_AT_ONCE):
            if start:
                await asyncio.sleep(READ_PAUSE_S)
            try:
                await self._show_resumed(subscriptions[start : start + READ_AT_ONCE])
            except CnsError as error:
                log.info("paused_subscription.read_failed", subscription="", error=str(error))
                return

    async def _show_resumed(self, subscriptions: Sequence[str]) -> None:
        """Show the heads of those that are not paused, or do not exist any more."""
        paused = {target.arn for target in await self._targets.find(subscriptions) if target.paused}
        for subscription in subscriptions:
            if subscription not in paused:
                self._display.show(self._hidden.take(subscription))


def _handles(buffers: Sequence[bytearray]) -> Iterator[str]:
    for buffer in buffers:
        start = 0
        while (end := buffer.find(b"\n", start)) >= 0:
            yield buffer[start:end].decode()
            start = end + 1
