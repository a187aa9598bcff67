"""The log of a topic's filter changes in Cassandra: a ring of the newest numbered entries, in the topic's own row.

An entry and its number are written in one conditional write, before the records that the entry names change. A publish
compares the number, in a row that it reads anyway, with the number that its filters have: no clock is involved, and
nothing is read twice. A crash between entry and record leaves a record that is older than the log says; readers read it
again until it is not (`cns.filters.topic_filters`). Simultaneous changes of a topic in one process share an entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from cns.publishing.filter_changes import FilterChange
from cns.stores.cassandra import schema
from cns_common.cassandra.session import Cassandra
from cns_common.errors import OutcomeUnknown, StoreUnavailable

RING_ENTRIES = 64
"""The size of the ring. It can never change, because processes of different versions share the ring."""
ENTRY_CHANGES_MAX = 32
WRITE_ATTEMPTS_MAX = 20

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[FilterChange]).decode

TopicIncarnation = tuple[str, str]
"""ARN and incarnation id."""


@dataclass(slots=True)
class _LogEntry:
    """Changes that wait to be written."""

    changes: list[FilterChange] = field(default_factory=list)
    task: asyncio.Task[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """The position that a reader reaches, and the changes since its last position."""

    position: str
    changes: list[FilterChange]
    reload_all: bool


class FilterLog:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra
        self._waiting: dict[TopicIncarnation, _LogEntry] = {}
        self._last_writes: dict[TopicIncarnation, asyncio.Task[int]] = {}

    # -- writing ------------------------------------------------------------------------------------------------------

    async def append(self, topic: TopicIncarnation, change: FilterChange) -> int:
        """Write a change to the log. Return the number of its entry; 0 if the topic does not exist."""
        entry = self._waiting.get(topic)
        if entry is None or len(entry.changes) >= ENTRY_CHANGES_MAX:
            entry = self._waiting[topic] = _LogEntry()
            entry.task = self._last_writes[topic] = asyncio.create_task(
                self._write(topic, entry, self._last_writes.get(topic))
            )
        entry.changes.append(change)
        assert entry.task is not None
        return await asyncio.shield(entry.task)

    async def rewrite_if_old(self, topic: TopicIncarnation, change: FilterChange, number: int) -> None:
        """Call it after the record changed. If the ring may have lost the entry since, write it again.

        A reader that started in between would otherwise miss the change.
        """
        rows = await self._cassandra.run(schema.AUDIENCE_OF_TOPIC, topic[0])
        if number and rows and rows[0][0] == topic[1] and rows[0][2] - number >= RING_ENTRIES // 2:
            await self.append(topic, change)

    async def _write(self, topic: TopicIncarnation, entry: _LogEntry, before: asyncio.Task[int] | None) -> int:
        try:
            if before is not None:
                await asyncio.wait({before})  # one at a time, because conditional writes of a row contend
            if self._waiting.get(topic) is entry:
                del self._waiting[topic]
            return await self._put(topic, entry.changes)
        finally:
            if self._last_writes.get(topic) is entry.task:
                del self._last_writes[topic]

    async def _put(self, topic: TopicIncarnation, changes: Sequence[FilterChange]) -> int:
        arn, topic_id = topic
        for _ in range(WRITE_ATTEMPTS_MAX):
            rows = await self._cassandra.run(schema.AUDIENCE_OF_TOPIC, arn)
            if not rows or rows[0][0] != topic_id:
                return 0
            last: int | None = rows[0][2]
            number = (last or 0) + 1
            values = (number, number % RING_ENTRIES, _encode(changes), arn, topic_id, last)
            try:
                if await self._cassandra.run_conditional(schema.LOG_FILTER_CHANGES, *values):
                    return number
            except OutcomeUnknown:
                continue  # writing an entry twice does no harm
        raise StoreUnavailable(f"too many simultaneous changes of filters of {arn}")

    # -- reading ------------------------------------------------------------------------------------------------------

    async def read(self, topic_arn: str, since: str) -> LogSlice | None:
        """Read the changes after the position `since`. None if there is no such topic."""
        for topic_id, number, entries in await self._cassandra.run(schema.FILTER_LOG, topic_arn):
            last = number or 0  # the topic was created again
            known_id, _, known = since.partition(":")
            reload_all = known_id != topic_id or last - int(known) > RING_ENTRIES
            numbers = range(max(1, last - RING_ENTRIES + 1) if reload_all else int(known) + 1, last + 1)
            changes = [change for each in numbers for change in _decode(entries[each % RING_ENTRIES])]
            return LogSlice(position=log_position(topic_id, last), changes=changes, reload_all=reload_all)
        return None


def log_position(topic_id: str, number: int) -> str:
    return f"{topic_id}:{number}"
