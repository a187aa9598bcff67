"""Runs message move tasks: each step moves one batch from the dead-letter queue and records the progress.

A batch is leased while it is moved, so no message is lost: what a dead worker did not move returns to the dead-letter
queue when the lease ends. A message's new id is derived from the task and its old id, so a crash between send and
delete repeats an id and never invents one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from cns_common.clock import Clock
from cqs.engines.contract import Change, Entry, Message, ReceiveResult
from cqs.limits import MOVE_TASK_MS_MAX
from cqs.messages.counters import count_new
from cqs.messages.send import dedup_key
from cqs.messages.transfer import MessageTransfer
from cqs.queues.cache import QueueCache
from cqs.queues.model import Body, decode_body, encode_body
from cqs.queues.urls import key_of_arn
from cqs.queues.view import QueueView
from cqs.redrive.task import MoveStatus, MoveTask
from cqs.redrive.tasks import update
from cqs.stores.contract import MoveTaskStore

MOVE_LEASE_MS = 30_000
NO_SUCH_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
NO_SOURCE = "CouldNotDetermineMessageSource"
OVERDUE = "TaskTimedOut"


class MoveStep(NamedTuple):
    """The task after a batch, and the number of messages that the batch took from the queue."""

    task: MoveTask
    taken: int = 0


class _MoveRoute(NamedTuple):
    """Consecutive messages with the same target."""

    target: QueueView
    messages: list[Message]


class MessageMover:
    def __init__(self, store: MoveTaskStore, cache: QueueCache, transfer: MessageTransfer, clock: Clock) -> None:
        self._store = store
        self._cache = cache
        self._transfer = transfer
        self._clock = clock

    async def begin(self, task: MoveTask) -> MoveTask:
        """Count another worker of this task. Call it before the worker's first step."""
        return await self._record(task, lambda current: replace(current, takes=current.takes + 1))

    async def step(self, task: MoveTask, n: int) -> MoveStep:
        """Move up to `n` messages. A step that takes none does not complete the task: the caller does, with `end`."""
        now_ms = self._clock.now_ms()
        current = await self._store.get(task.source_arn, task.id)
        if current is None:
            return MoveStep(replace(task, status="CANCELLED"))
        if current.status == "CANCELLING":
            return MoveStep(await self.end(current, "CANCELLED"))
        if now_ms - current.started_ms > MOVE_TASK_MS_MAX:
            return MoveStep(await self.end(current, "FAILED", OVERDUE))
        source = await self._queue(task.source_arn)
        if source is None or source.queue.id != task.source_id:
            return MoveStep(await self.end(current, "FAILED", NO_SUCH_QUEUE))
        received = await source.engine.receive(source.ref_without_redrive, n, now_ms + MOVE_LEASE_MS, now_ms)
        return await self._move(current, source, received, now_ms)

    async def end(self, task: MoveTask, status: MoveStatus, failure: str = "", moved: int = 0) -> MoveTask:
        """End the task. COMPLETED becomes CANCELLED if a cancellation was requested meanwhile."""

        def ended(current: MoveTask) -> MoveTask:
            final = "CANCELLED" if current.status == "CANCELLING" and status == "COMPLETED" else status
            return replace(current, status=final, failure=failure, moved=current.moved + moved)

        return await self._record(task, ended)

    async def _move(self, task: MoveTask, source: QueueView, received: ReceiveResult, now_ms: int) -> MoveStep:
        if received.dropped:
            return MoveStep(await self.end(task, "FAILED", NO_SUCH_QUEUE))
        if not received.messages:
            return MoveStep(task)
        routes, failure = await self._routes(task, received.messages)
        moved = 0
        for route in routes:
            moved += await self._move_to(task, source, route, now_ms)
        if failure:
            on_their_way = sum(len(route.messages) for route in routes)
            await _release(source, received.messages[on_their_way:], now_ms)
            return MoveStep(await self.end(task, "FAILED", failure, moved), on_their_way)
        after = await self._record(task, lambda current: replace(current, moved=current.moved + moved))
        return MoveStep(after, len(received.messages))

    async def _routes(self, task: MoveTask, messages: Sequence[Message]) -> tuple[list[_MoveRoute], str]:
        """The targets of the messages before the first that cannot be moved, and that one's failure reason or ''."""
        routes: list[_MoveRoute] = []
        for message in messages:
            arn = task.destination_arn or decode_body(message.body).source_arn
            if not arn:
                return routes, NO_SOURCE
            target = await self._queue(arn)
            if target is None:
                return routes, NO_SUCH_QUEUE
            if not routes or routes[-1].target is not target:
                routes.append(_MoveRoute(target, []))
            routes[-1].messages.append(message)
        return routes, ""

    async def _move_to(self, task: MoveTask, source: QueueView, route: _MoveRoute, now_ms: int) -> int:
        """Returns how many messages arrived; duplicates in a FIFO queue do not count."""
        target, messages = route
        entries = [_redriven(task, target, message, now_ms) for message in messages]
        return count_new(await self._transfer.move(source, target, messages, entries, "moved", now_ms))

    async def _queue(self, arn: str) -> QueueView | None:
        key = key_of_arn(arn)
        return None if key is None else await self._cache.find(key)

    async def _record(self, task: MoveTask, change: Callable[[MoveTask], MoveTask]) -> MoveTask:
        return await update(self._store, task, change) or replace(task, status="CANCELLED")


async def _release(source: QueueView, messages: Sequence[Message], now_ms: int) -> None:
    await source.engine.change(source.ref, [Change(message.handle, now_ms) for message in messages], now_ms)


def _redriven(task: MoveTask, target: QueueView, message: Message, now_ms: int) -> Entry:
    """A new message with the old content. In a FIFO queue the old id is its deduplication id."""
    body: Body = decode_body(message.body)
    dedup = message.id if target.fifo else ""
    return Entry(
        str(uuid.uuid5(uuid.UUID(task.id), message.id)),
        encode_body(replace(body, sent_at_ms=now_ms, source_arn="", dedup=dedup)),
        now_ms,
        now_ms,
        message.group,
        dedup_key(target, message.group, dedup) if dedup else "",
    )
