"""Conditional writes of message rows. Writes that wait for the same bucket become one conditional batch.

A Paxos round covers a whole partition, so concurrent rounds of one process on a bucket would only hinder each other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.ids import hex_id
from cqs.engines.cassieq import schema
from cqs.engines.cassieq.bucket import CassieqMessageRow
from cqs.engines.cassieq.rows import CassieqRows

BATCH_MAX = 100
TRIES_MAX = 12
TRY_WITHIN_S = 6.0
BACKOFF_S = 0.02
MARK_DIGITS = 16
"""The column `lease` identifies the last write that leased or acknowledged the message."""


class RowWrite(NamedTuple):
    """One conditional write. `fits` says whether its condition holds for a row. `done` says whether a row shows its
    effect, so that a write whose answer was lost was applied."""

    monoton: int
    statement: Statement
    values: tuple[object, ...]
    conditions: tuple[object, ...]
    fits: Callable[[CassieqMessageRow], bool]
    done: Callable[[CassieqMessageRow], bool]


class WriteResult(NamedTuple):
    applied: bool
    row: CassieqMessageRow | None = None
    """The row that did not meet the condition, if there is one."""


def consume(row: CassieqMessageRow, visible_at_ms: int, deliveries: int, first_at_ms: int) -> RowWrite:
    """Give the message to a receiver."""
    mark = hex_id()[:MARK_DIGITS]
    return RowWrite(
        row.monoton,
        schema.CONSUME,
        (visible_at_ms, row.version + 1, deliveries, first_at_ms, mark),
        (row.version, row.visible_at_ms),
        lambda now: not now.acked and (now.version, now.visible_at_ms) == (row.version, row.visible_at_ms),
        lambda now: now.lease == mark,
    )


def acknowledge(monoton: int, version: int, tag: str, *, older: bool = False) -> RowWrite:
    mark = hex_id()[:MARK_DIGITS]
    return RowWrite(
        monoton,
        schema.ACK_ANY if older else schema.ACK,
        (mark,),
        (version, tag),
        lambda now: _is_of(now, version, tag, older=older),
        lambda now: now.lease == mark,
    )


def hide(monoton: int, version: int, tag: str, visible_at_ms: int, *, older: bool = False) -> RowWrite:
    return RowWrite(
        monoton,
        schema.HIDE_ANY if older else schema.HIDE,
        (visible_at_ms,),
        (version, tag),
        lambda now: _is_of(now, version, tag, older=older),
        lambda now: False,  # its condition still holds after it, so that it may be repeated
    )


def update_body(monoton: int, version: int, tag: str, body: bytes, visible_at_ms: int | None) -> RowWrite:
    return RowWrite(
        monoton,
        schema.UPDATE_BODY if visible_at_ms is None else schema.UPDATE_BODY_AND_HIDE,
        (body,) if visible_at_ms is None else (body, visible_at_ms),
        (version, tag),
        lambda now: _is_of(now, version, tag, older=False),
        lambda now: False,
    )


def move(row: CassieqMessageRow, to: int) -> RowWrite:
    """Reserve a message that was never delivered; repair then inserts it again at the monoton `to`."""
    return RowWrite(
        row.monoton,
        schema.MOVE,
        (to,),
        (),
        lambda now: not now.acked and now.version == 0,
        lambda now: now.moved_to == to,
    )


def _is_of(row: CassieqMessageRow, version: int, tag: str, *, older: bool) -> bool:
    """Whether a handle's version and tag are those of the row's newest delivery; with `older`, of any."""
    same = row.version >= version if older else row.version == version
    return same and row.tag == tag and not row.acked


class _WaitingWrite(NamedTuple):
    write: RowWrite
    result: asyncio.Future[WriteResult]


class BucketWrites:
    def __init__(self, cassandra: Cassandra, rows: CassieqRows) -> None:
        self._cassandra = cassandra
        self._rows = rows
        self._waiting: dict[tuple[str, int], list[_WaitingWrite]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self, key: str, bucket: int, writes: Sequence[RowWrite]) -> list[WriteResult]:
        """Each write is applied or refused separately. Two of one row are applied one after the other."""
        loop = asyncio.get_running_loop()
        added = [_WaitingWrite(write, loop.create_future()) for write in writes]
        place = (key, bucket)
        if place in self._waiting:
            self._waiting[place] += added
        else:
            self._waiting[place] = added
            task = loop.create_task(self._run(place))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        answers = await asyncio.gather(*[one.result for one in added], return_exceptions=True)
        results: list[WriteResult] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            results.append(answer)
        return results

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, place: tuple[str, int]) -> None:
        while waiting := self._waiting[place]:
            batch: dict[int, _WaitingWrite] = {}
            for one in waiting:
                if len(batch) < BATCH_MAX:
                    batch.setdefault(one.write.monoton, one)
            taken = set(map(id, batch.values()))
            self._waiting[place] = [one for one in waiting if id(one) not in taken]
            try:
                await self._write(place, list(batch.values()))
            except Exception as error:  # noqa: BLE001  # the callers raise it
                for one in batch.values():
                    if not one.result.done():
                        one.result.set_exception(error)
        del self._waiting[place]

    async def _write(self, place: tuple[str, int], left: list[_WaitingWrite]) -> None:
        """Repeat the batch without the writes that are refused, until it is applied."""
        lost: OutcomeUnknown | None = None
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TRY_WITHIN_S
        for number in range(TRIES_MAX):
            if number and loop.time() > until_s:
                break
            try:
                applied = await self._try(place, left)
            except OutcomeUnknown as error:  # the next try completes or discards it
                lost = error
                await asyncio.sleep(random.uniform(0, BACKOFF_S * (number + 1)))  # noqa: S311  # spreads tries
                continue
            except StoreUnavailable:
                if lost is not None:  # this try wrote nothing; the outcome of the one before is unknown
                    raise lost from None
                raise
            if applied:
                for one in left:
                    _answer(one, WriteResult(applied=True))
                return
            left = await self._sort_out(place, left, was_lost=lost is not None)
            lost = None
            if not left:
                return
        raise lost or StoreUnavailable("the bucket is written again and again")

    async def _try(self, place: tuple[str, int], writes: Sequence[_WaitingWrite]) -> bool:
        parts = [
            (one.write.statement, (*one.write.values, *place, one.write.monoton, *one.write.conditions))
            for one in writes
        ]
        if len(parts) == 1:
            statement, values = parts[0]
            return await self._cassandra.run_conditional(statement, *values)
        return await self._cassandra.run_conditional_batch(parts)

    async def _sort_out(
        self, place: tuple[str, int], writes: list[_WaitingWrite], *, was_lost: bool
    ) -> list[_WaitingWrite]:
        """Answer the writes whose condition does not hold. Returns the others."""
        rows = {row.monoton: row for row in (await self._rows.bucket(*place)).rows}
        left = []
        for one in writes:
            row = rows.get(one.write.monoton)
            if row is not None and was_lost and one.write.done(row):
                _answer(one, WriteResult(applied=True))
            elif row is None or not one.write.fits(row):
                _answer(one, WriteResult(applied=False, row=row))
            else:
                left.append(one)
        return left


def _answer(waiting: _WaitingWrite, result: WriteResult) -> None:
    if not waiting.result.done():  # its caller may have been cancelled
        waiting.result.set_result(result)
