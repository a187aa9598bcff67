"""Reads a queue without taking anything: peeks, counts, and looks for messages of other processes."""

from __future__ import annotations

from itertools import groupby

from cns_common.cassandra.background_work import background
from cns_common.clock import Clock
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.hidden import FRESH_MS, HIDDEN_MAX, KNOWN_MS_MAX, HiddenPositions
from cqs.engines.bdqs.ids import NODE_DIGITS, IndexRow, Position, slot_name, window_start
from cqs.engines.bdqs.index import QueueIndex
from cqs.engines.bdqs.known_queues import BdqsKnownQueue
from cqs.engines.bdqs.message_state import MessageState
from cqs.engines.bdqs.messages import BdqsMessageRow, Messages, gather_few
from cqs.engines.bdqs.picker import Picker
from cqs.engines.contract import Counts, PeekedMessage, PeekPage

LOOK_MAX = 100
REPEAT_MS = 5_000
"""After this time, `look` counts a message again that nobody received."""
BEGIN = Position(-1, 0, "", "")


class QueueReader:
    def __init__(self, index: QueueIndex, messages: Messages, clock: Clock, node: str) -> None:
        self._index = index
        self._messages = messages
        self._clock = clock
        self._node = node
        self._reported: dict[str, dict[Position, int]] = {}
        self._to_read: dict[str, tuple[BdqsKnownQueue, int]] = {}

    async def peek(self, queue: BdqsKnownQueue, cursor: str, n: int) -> PeekPage:
        """Read window after window; within one, the positions of its slots are merged. A position that is not named by
        its message's state is skipped."""
        from_ms, after = _parse_cursor(cursor)
        peeked: list[PeekedMessage] = []
        slots = [
            slot async for slot in self._index.all_slots(queue.q.id, queue.generation) if window_start(slot) >= from_ms
        ]
        for window_ms, some in groupby(slots, window_start):
            names = list(some)
            start = after if window_ms == from_ms else BEGIN
            while True:
                want = n - len(peeked)
                entries = await self._merged(queue, names, start, want)
                rows = await self._messages.read(queue.q.id, {one.message for one in entries}, queue.mode)
                peeked += [
                    _peeked(entry, row)
                    for entry in entries
                    if (row := rows.get(entry.message)) and _is_current(entry, row.state)
                ]
                if entries:
                    start = entries[-1].position
                if len(peeked) >= n:
                    return PeekPage(tuple(peeked), _cursor(window_ms, start))
                if len(entries) < want:
                    break
        return PeekPage(tuple(peeked))

    async def _merged(self, queue: BdqsKnownQueue, slots: list[str], after: Position, n: int) -> list[IndexRow]:
        pages = await gather_few([self._index.read_after(queue.q.id, slot, after, n) for slot in slots])
        return sorted((entry for page in pages for entry in page), key=lambda entry: entry.position)[:n]

    async def counts(self, queue: BdqsKnownQueue, now_ms: int, *, oldest: bool) -> Counts:
        picker = queue.picker  # a purge replaces it
        slots = await self._slots(queue, picker, now_ms)
        past = [slot for slot in slots if window_start(slot) <= now_ms]
        begins = await picker.first_visible(past, now_ms, queue.mode.level, deep=False)
        visible = await self._index.count_visible(queue.q.id, begins, now_ms)
        in_flight, delayed = await self._hidden(queue, picker, slots, now_ms)
        born_at_ms = 0
        if oldest and visible + in_flight + delayed:
            born_at_ms = await self._oldest_ms(queue, picker, begins, slots)
        return Counts(visible, in_flight, delayed, born_at_ms)

    async def _slots(self, queue: BdqsKnownQueue, picker: Picker, now_ms: int) -> list[str]:
        """The listed slots. The read skips the tombstones of slots that were retired before the first one."""
        generation = picker.views.generation
        slots = [slot async for slot in self._index.all_slots(queue.q.id, generation, picker.first_slot)]
        oldest = slot_name(generation, max(now_ms - schema.RETIRE_MS, 0), 0)
        picker.first_slot = min([oldest, *slots[:1]])
        return slots

    async def _hidden(self, queue: BdqsKnownQueue, picker: Picker, slots: list[str], now_ms: int) -> tuple[int, int]:
        """(in flight, delayed) messages, perhaps without changes by other processes in the last seconds."""
        hidden = picker.hidden
        age_ms = hidden.age_ms(self._clock.monotonic_ms())
        if age_ms >= KNOWN_MS_MAX:
            await self._read_hidden(queue, hidden, slots, now_ms)
        found = hidden.count(now_ms)
        if age_ms >= FRESH_MS:
            self._to_read[queue.q.id] = queue, now_ms
        return found or await self._index.count_hidden(queue.q.id, _later(slots, now_ms), now_ms)

    async def _read_hidden(self, queue: BdqsKnownQueue, hidden: HiddenPositions, slots: list[str], now_ms: int) -> None:
        async with hidden.reading:
            if hidden.age_ms(self._clock.monotonic_ms()) < FRESH_MS:
                return
            hidden.begin_reading()
            found = None
            try:
                found = await self._index.hidden(queue.q.id, _later(slots, now_ms), now_ms, HIDDEN_MAX)
            finally:
                hidden.end_reading(found, self._clock.monotonic_ms())

    async def read_step(self) -> None:
        """Read the hidden and the late positions that other processes wrote to the queues that were counted."""
        with background("counts"):
            while self._to_read:
                _, (queue, now_ms) = self._to_read.popitem()
                picker = queue.picker
                slots = await self._slots(queue, picker, now_ms)
                await self._read_hidden(queue, picker.hidden, slots, now_ms)
                past = [slot for slot in slots if window_start(slot) <= now_ms]
                await picker.first_visible(past, now_ms, queue.mode.level, deep=True)

    async def _oldest_ms(self, queue: BdqsKnownQueue, picker: Picker, begins: list[IndexRow], slots: list[str]) -> int:
        """When the first message of the index was sent. A message in flight may be older, further on in the index."""
        first = begins[0].position if begins else picker.hidden.first()
        for slot in slots if first is None else ():
            if entries := await self._index.read(queue.q.id, slot, None, 1, queue.mode.level):
                first = entries[0].position
                break
        if first is None:
            return 0
        row = (await self._messages.read(queue.q.id, [first.message], queue.mode)).get(first.message)
        return row.born_at_ms if row else begins[0].born_at_ms if begins else 0

    async def look(self, queue: BdqsKnownQueue, now_ms: int) -> tuple[int, int | None]:
        """Return the number of other processes' visible positions not found lately, and the next due time."""
        entries, next_due_ms = await queue.picker.look(now_ms, LOOK_MAX, queue.mode.level)
        monotonic_ms = self._clock.monotonic_ms()
        before = self._reported.get(queue.q.id, {})
        strange = [one.position for one in entries if one.position.stamp[-NODE_DIGITS:] != self._node]
        fresh = [one for one in strange if monotonic_ms - before.get(one, -REPEAT_MS) >= REPEAT_MS]
        self._reported[queue.q.id] = {
            one: monotonic_ms if one not in before or one in fresh else before[one] for one in strange
        }
        if not strange:
            self._reported.pop(queue.q.id)
        return len(fresh), next_due_ms


def _later(slots: list[str], now_ms: int) -> list[str]:
    """The slots that may have hidden positions."""
    return [slot for slot in slots if window_start(slot) + schema.WINDOW_MS > now_ms]


def _is_current(entry: IndexRow, state: MessageState) -> bool:
    return entry.position.stamp == state.stamp


def _peeked(entry: IndexRow, row: BdqsMessageRow) -> PeekedMessage:
    return PeekedMessage(
        row.id,
        row.body,
        entry.position.seq,
        row.state.deliveries,
        row.state.first_received_ms,
        row.born_at_ms,
        entry.position.due_ms,
        row.tenant,
    )


def _cursor(window_ms: int, last: Position) -> str:
    return ":".join(map(str, (window_ms, *last)))


def _parse_cursor(cursor: str) -> tuple[int, Position]:
    if not cursor:
        return 0, BEGIN
    window, due, seq, bucket, stamp = cursor.split(":")
    return int(window), Position(int(due), int(seq), bucket, stamp)
