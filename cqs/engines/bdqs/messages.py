"""Reads and writes the rows of messages. If the index disagrees with a row, the row is right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

from cns_common.bounded_cache import BoundedCache
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Consistency, Row, Statement
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.consistency import QueueConsistency
from cqs.engines.bdqs.ids import (
    COUNTER_BITS,
    GENERATION_DIGITS,
    NUMBER_DIGITS,
    TIME_DIGITS,
    MessageKey,
    stamp_us,
)
from cqs.engines.bdqs.message_state import MessageState, parse_state
from cqs.engines.contract import Entry as SentMessage

OPEN_MAX = 20_000

T = TypeVar("T")


class BdqsMessageRow(NamedTuple):
    id: str
    body: bytes
    born_at_ms: int
    tenant: str
    state: MessageState


class _OpenBucket:
    __slots__ = ("bytes", "generation", "name", "rows", "start_ms")

    def __init__(self, name: str, generation: int, start_ms: int) -> None:
        self.name = name
        self.generation = generation
        self.start_ms = start_ms
        self.rows = 0
        self.bytes = 0


class Buckets:
    """Assigns keys to the messages that this process sends: in order, in buckets of its own."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._numbers = count()
        self._next = 0
        self._open: BoundedCache[str, _OpenBucket] = BoundedCache(OPEN_MAX)

    def next_key(self, queue_id: str, generation: int, size: int, now_ms: int, *, alone: bool) -> MessageKey:
        """`alone`: in a bucket of its own, since conditional writes to one bucket wait for one another."""
        opened = self._open.get(queue_id)
        if opened is None or alone or not _has_room(opened, generation, size, now_ms):
            number = next(self._numbers) % 16**NUMBER_DIGITS
            name = f"{generation:0{GENERATION_DIGITS}x}{now_ms:0{TIME_DIGITS}x}{self._node}{number:0{NUMBER_DIGITS}x}"
            opened = _OpenBucket(name, generation, now_ms)
            self._open.put(queue_id, opened)
        opened.rows += 1
        opened.bytes += size
        seq = max(now_ms << COUNTER_BITS, self._next)
        self._next = seq + 1
        return MessageKey(opened.name, seq)


def _has_room(opened: _OpenBucket, generation: int, size: int, now_ms: int) -> bool:
    return (
        opened.generation == generation
        and 0 <= now_ms - opened.start_ms < schema.BUCKET_SPAN_MS
        and opened.rows < schema.BUCKET_ROWS_MAX
        and opened.bytes + size <= schema.BUCKET_BYTES_MAX
    )


class Messages:
    def __init__(self, cassandra: Cassandra, clock: Clock) -> None:
        self._cassandra = cassandra
        self._clock = clock

    async def insert(
        self,
        queue_id: str,
        messages: Sequence[tuple[MessageKey, SentMessage, MessageState]],
        mode: QueueConsistency,
    ) -> None:
        insert = schema.at(schema.INSERT, mode.level)
        await self._write(
            [
                (key.bucket, insert, (queue_id, *key, one.id, one.body, one.born_at_ms, one.group, state.encode()))
                for key, one, state in messages
            ]
        )

    async def read(
        self, queue_id: str, keys: Iterable[MessageKey], mode: QueueConsistency
    ) -> dict[MessageKey, BdqsMessageRow]:
        """The messages that exist, one read per bucket."""
        found = await self._read(schema.READ, queue_id, keys, mode.level)
        return {
            key: BdqsMessageRow(message_id, body, born_at_ms, tenant, parse_state(state))
            for key, (_, message_id, body, born_at_ms, tenant, state) in found.items()
        }

    async def states(
        self, queue_id: str, keys: Iterable[MessageKey], level: Consistency
    ) -> dict[MessageKey, MessageState]:
        """Read the states of those of the messages that exist."""
        found = await self._read(schema.READ_STATES, queue_id, keys, level)
        return {key: parse_state(row[2]) for key, row in found.items()}

    async def _read(
        self, statement: Statement, queue_id: str, keys: Iterable[MessageKey], level: Consistency
    ) -> dict[MessageKey, Row]:
        by_bucket = _grouped(keys, lambda key: key.bucket)
        pages = await self._cassandra.run_each(
            schema.at(statement, level),
            [(queue_id, bucket, [key.seq for key in some]) for bucket, some in by_bucket.items()],
        )
        return {
            MessageKey(bucket, row[0]): row
            for bucket, rows in zip(by_bucket, pages, strict=True)
            for row in rows
            if None not in row  # else a part of it is missing on this replica, or was written after its delete
        }

    async def confirmed_missing(
        self, queue_id: str, keys: Sequence[MessageKey], mode: QueueConsistency
    ) -> set[MessageKey]:
        """Return the keys, of those that a read did not find, whose messages are confirmed not to exist."""
        if not keys or mode.sees_deletes:
            return set(keys)
        try:
            return set(keys) - set(await self.states(queue_id, keys, Consistency.ALL))
        except CnsError:
            return set()

    async def set_states(
        self, queue_id: str, states: Mapping[MessageKey, MessageState], mode: QueueConsistency
    ) -> None:
        """Unconditional: of two concurrent writers the one with the greater stamp wins."""
        write = schema.at(schema.SET_STATE, mode.level)
        await self._write(
            [
                (key.bucket, write, (stamp_us(state.stamp), state.encode(), queue_id, *key))
                for key, state in states.items()
            ]
        )

    async def replace_state(self, queue_id: str, key: MessageKey, old: MessageState, new: MessageState) -> bool:
        """Conditional. Returns whether the state was still the old one."""
        values = (new.encode(), queue_id, *key, old.encode())
        return await self._conditional(schema.SET_STATE_IF, values, queue_id, key, new)

    async def set_body(
        self, queue_id: str, key: MessageKey, old: MessageState, new: MessageState, body: bytes, mode: QueueConsistency
    ) -> bool:
        """Write a new body with its state. Returns whether it was written."""
        if mode.conditional:
            values = (new.encode(), body, queue_id, *key, old.encode())
            return await self._conditional(schema.SET_BODY_IF, values, queue_id, key, new)
        write = schema.at(schema.SET_BODY, mode.level)
        await self._cassandra.run(write, stamp_us(new.stamp), new.encode(), body, queue_id, *key)
        return True

    async def delete(self, queue_id: str, states: Mapping[MessageKey, MessageState], mode: QueueConsistency) -> None:
        """Unconditional. Its write timestamp is above those of the insert and of states written at the same time."""
        delete = schema.at(schema.DELETE, mode.level)
        now_us = self._clock.wall_ms() * 1_000
        await self._write(
            [
                (
                    key.bucket,
                    delete,
                    (max(now_us, stamp_us(state.stamp)) + schema.DELETE_AHEAD_US, queue_id, *key),
                )
                for key, state in states.items()
            ]
        )

    async def delete_all(self, queue_id: str, keys: Iterable[MessageKey]) -> None:
        """Remove messages of an earlier generation, whatever their states."""
        delete_us = self._clock.wall_ms() * 1_000 + schema.DELETE_AHEAD_US
        await self._write([(key.bucket, schema.DELETE, (delete_us, queue_id, *key)) for key in keys])

    async def delete_if(self, queue_id: str, key: MessageKey, state: MessageState) -> bool:
        """Conditional. Returns whether the state was still this one."""
        return await self._conditional(schema.DELETE_IF, (queue_id, *key, state.encode()), queue_id, key, None)

    async def _conditional(
        self,
        statement: Statement,
        values: tuple[object, ...],
        queue_id: str,
        key: MessageKey,
        wanted: MessageState | None,
    ) -> bool:
        async def is_wanted() -> bool:
            return (await self.states(queue_id, [key], Consistency.SERIAL)).get(key) == wanted

        return await resolve_lost_write(lambda: self._cassandra.run_conditional(statement, *values), is_wanted)

    async def _write(self, writes: Sequence[tuple[str, Statement, tuple[object, ...]]]) -> None:
        """One write per bucket, in parallel."""
        by_bucket = _grouped(writes, lambda write: write[0])
        await gather_few([self._write_bucket(some) for some in by_bucket.values()])

    async def _write_bucket(self, writes: Sequence[tuple[str, Statement, tuple[object, ...]]]) -> None:
        if len(writes) == 1:
            _, statement, values = writes[0]
            await self._cassandra.run(statement, *values)
        else:
            await self._cassandra.run_batch([(statement, values) for _, statement, values in writes], logged=False)


def _grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


async def gather_few(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """`asyncio.gather`, but without a task for a single coroutine. Waits for all before it raises the first error."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    done = await asyncio.gather(*coroutines, return_exceptions=True)
    results: list[T] = []
    for one in done:
        if isinstance(one, BaseException):
            raise one
        results.append(one)
    return results
