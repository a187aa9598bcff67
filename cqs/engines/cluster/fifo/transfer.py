"""Reads and writes FIFO queues for a move between engines: bodies as rows, the rest as one snapshot of the log.

A queue's state is in memory as a whole, as in each process that uses the queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice

from cqs.engines.cluster.fifo.dedup import DedupRecord
from cqs.engines.cluster.fifo.encoding import SnapshotHead, encode_steps, in_turns
from cqs.engines.cluster.fifo.log import CommandLog
from cqs.engines.cluster.fifo.log_time import LogTime
from cqs.engines.cluster.fifo.order import QueuedMessage
from cqs.engines.cluster.ids import MessageLocation, parse_location
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.contract import QueueRef
from cqs.engines.moved_message import PAGE_ROWS, FifoMemory, MovedMessage, Original


class FifoTransfer:
    def __init__(self, rows: MessageRows, time: LogTime, log: Callable[[str], CommandLog]) -> None:
        self._rows = rows
        self._time = time
        self._log = log
        self._ahead_ms: int | None = None  # fixed, so that a copy and its comparison convert times alike

    async def messages(self, q: QueueRef) -> AsyncIterator[list[MovedMessage]]:
        to_process = await self._converter(1)
        log = self._log(q.id)
        state = await log.catch_up()
        messages = iter(list(state.order.messages.values()))
        while some := list(islice(messages, PAGE_ROWS)):
            rows = await self._rows.read(q.id, [parse_location(one.location) for one in some])
            yield [
                MovedMessage(
                    one.id,
                    rows[parse_location(one.location)].body,
                    to_process(one.born_at_ms),
                    to_process(one.visible_at_ms),
                    one.deliveries,
                    to_process(one.first_at_ms),
                    one.group,
                    one.seq,
                )
                for one in some
                if parse_location(one.location) in rows  # else it was purged, or is older than any retention
            ]
        await log.unload()

    async def memory(self, q: QueueRef, now_ms: int) -> FifoMemory:
        to_log, to_process = await self._converter(-1), await self._converter(1)
        state = await self._log(q.id).catch_up()
        originals = [
            Original(to_process(one.until_ms), one.key, one.id, one.seq) for one in state.originals(to_log(now_ms))
        ]
        return FifoMemory(state.next_seq, tuple(sorted(originals)))

    async def store(
        self,
        q: QueueRef,
        generation: int,
        located: Sequence[tuple[MovedMessage, MessageLocation]],
        memory: FifoMemory,
        now_ms: int,
    ) -> None:
        """Make these the queue's messages. The log has a slot already: that of the purge before."""
        to_log = await self._converter(-1)
        log = self._log(q.id)
        next_seq = max(memory.next_sequence, (await log.catch_up()).next_seq)
        head = SnapshotHead(generation, False, to_log(now_ms), next_seq, next_lease=1)
        messages = [
            QueuedMessage(
                one.sequence,
                one.id,
                location.member,
                one.group,
                to_log(one.born_at_ms),
                to_log(one.visible_at_ms),
                one.deliveries,
                to_log(one.first_received_ms),
            )
            for one, location in located
        ]
        records = [
            DedupRecord(to_log(one.until_ms), one.key, one.id, "", one.sequence) for one in sorted(memory.originals)
        ]
        await log.go_on_from(await in_turns(encode_steps(head, messages, records, ())))

    async def _converter(self, sign: int) -> Callable[[int], int]:
        """Converts times to those of this process (1), or of the log (-1). 0 stands for no time."""
        if self._ahead_ms is None:
            await self._time.ensure()
            self._ahead_ms = self._time.to_process(1) - 1
        by_ms = sign * self._ahead_ms
        return lambda ms: ms + by_ms if ms else 0
