"""The log of a topic's filters in Cassandra: numbered entries in the topic's own row, a ring of the newest.

An entry is written before the records that it names change, by one conditional write together with its number. So a
publish learns from the number, in the row it reads anyway, whether it knows all filters: no clock is compared, nothing
is read twice, and a crash between entry and record leaves an entry whose record is older than it says, which readers
look at until it is not (`cns.filters.topic_filters`). Changes of one topic that a process makes at the same time share
an entry.
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

ENTRIES = 64
"""Processes of all versions share the ring: it is of this size for ever."""
CHANGES_AT_ONCE = 32
TRIES_MAX = 20

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[FilterChange]).decode

Topic = tuple[str, str]
"""ARN, and incarnation."""


@dataclass(slots=True)
class _LogEntry:
    """Changes that wait for their turn."""

    changes: list[FilterChange] = field(default_factory=list)
    task: asyncio.Task[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """The place in the log where a reader is, and what there was since its last one."""

    place: str
    changes: list[FilterChange]
    anew: bool


class FilterLog:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra
        self._gathering: dict[Topic, _LogEntry] = {}
        self._newest: dict[Topic, asyncio.Task[int]] = {}

    # -- writing ------------------------------------------------------------------------------------------------------

    async def append(self, topic: Topic, change: FilterChange) -> int:
        """The number of the entry that has it; 0 when the topic is gone, and nothing is published to it."""
        entry = self._gathering.get(topic)
        if entry is None or len(entry.changes) >= CHANGES_AT_ONCE:
            entry = self._gathering[topic] = _LogEntry()
            entry.task = self._newest[topic] = asyncio.create_task(self._write(topic, entry, self._newest.get(topic)))
        entry.changes.append(change)
        assert entry.task is not None
        return await asyncio.shield(entry.task)

    async def keep(self, topic: Topic, change: FilterChange, number: int) -> None:
        """Called when the record has changed. Where the ring came round since the entry was written, a reader may have
        begun without it: it is written again."""
        rows = await self._cassandra.run(schema.AUDIENCE_OF_TOPIC, topic[0])
        if number and rows and rows[0][0] == topic[1] and rows[0][2] - number >= ENTRIES // 2:
            await self.append(topic, change)

    async def _write(self, topic: Topic, entry: _LogEntry, before: asyncio.Task[int] | None) -> int:
        try:
            if before is not None:
                await asyncio.wait({before})  # one at a time: conditional writes of a row hinder one another
            if self._gathering.get(topic) is entry:
                del self._gathering[topic]
            return await self._put(topic, entry.changes)
        finally:
            if self._newest.get(topic) is entry.task:
                del self._newest[topic]

    async def _put(self, topic: Topic, changes: Sequence[FilterChange]) -> int:
        arn, topic_id = topic
        for _ in range(TRIES_MAX):
            rows = await self._cassandra.run(schema.AUDIENCE_OF_TOPIC, arn)
            if not rows or rows[0][0] != topic_id:
                return 0
            last: int | None = rows[0][2]
            number = (last or 0) + 1
            values = (number, number % ENTRIES, _encode(changes), arn, topic_id, last)
            try:
                if await self._cassandra.applied(schema.LOG_FILTER_CHANGES, *values):
                    return number
            except OutcomeUnknown:
                continue  # an entry that is written twice does no harm
        raise StoreUnavailable(f"the filters of {arn} change all the time")

    # -- reading ------------------------------------------------------------------------------------------------------

    async def read(self, topic_arn: str, since: str) -> LogSlice | None:
        """None when there is no such topic."""
        for topic_id, number, entries in await self._cassandra.run(schema.FILTER_LOG, topic_arn):
            last = number or 0  # of a topic created anew
            known_id, _, known = since.partition(":")
            anew = known_id != topic_id or last - int(known) > ENTRIES
            numbers = range(max(1, last - ENTRIES + 1) if anew else int(known) + 1, last + 1)
            changes = [change for each in numbers for change in _decode(entries[each % ENTRIES])]
            return LogSlice(place=log_position(topic_id, last), changes=changes, anew=anew)
        return None


def log_position(topic_id: str, number: int) -> str:
    return f"{topic_id}:{number}"
