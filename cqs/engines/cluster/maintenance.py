"""Clearing up in bounded steps: what purges and drops left, and what is past its retention."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import DROPPED, Cache
from cqs.engines.cluster.cache_failover import Caches
from cqs.engines.cluster.ids import Place, start_of
from cqs.engines.cluster.known_queues import Line, Lines
from cqs.engines.cluster.refill import buckets_of, has_messages, is_closed, sketches_of
from cqs.engines.cluster.rows import Rows

log = structlog.get_logger(__name__)

QUEUES_MAX = 100
TIDIED_AT_ONCE = 50
"""Of a process's queues: each costs a few statements, whether or not there is anything to do."""
EMPTY_LOOKS = 2
EMPTY_MS = 30_000
"""No write is under way for longer."""


Clear = Callable[[str, int], Coroutine[Any, Any, int]]
"""What of a queue is to be cleared beside its buckets; how much of it went."""


async def tidy(
    rows: Rows,
    lines: Lines,
    expire_of: Callable[[Line, int], Coroutine[Any, Any, int]],
    budget: int,
    now_ms: int,
    wall_ms: int,
) -> int:
    """See to some of the queues that this process uses; returns how many rows or buckets went."""
    done = 0
    for line in lines.turn(TIDIED_AT_ONCE):
        if done >= budget:
            break
        if line.generation == DROPPED:
            continue
        try:
            done += await expire_of(line, budget - done)
            done += await _drop_empty(rows, line, now_ms, wall_ms)
        except CnsError as error:  # the others have their turn all the same
            log.warning("queue.maintenance_failed", queue=line.q.id, error=str(error))
    return done


async def _drop_empty(rows: Rows, line: Line, now_ms: int, wall_ms: int) -> int:
    """Of closed buckets, those that were seen empty twice: what was under way the first time is there by the second.

    A few at a time, each in turn.
    """
    dropped = 0
    closed = [bucket async for bucket in buckets_of(rows, line.q.id, line.generation) if is_closed(bucket, now_ms)]
    turn = [bucket for bucket in closed if bucket > line.looked_at][:EMPTY_LOOKS] or closed[:EMPTY_LOOKS]
    for bucket in turn:
        line.looked_at = bucket
        if await has_messages(rows, line.q.id, bucket):
            line.empty.pop(bucket, None)
        elif wall_ms - line.empty.setdefault(bucket, wall_ms) >= EMPTY_MS:
            await rows.remove_bucket(line.q.id, bucket)
            del line.empty[bucket]
            dropped += 1
    return dropped


async def clear_garbage(rows: Rows, clear_log: Clear, budget: int) -> int:
    """What purges and drops left behind, of all queues."""
    done = 0
    while done < budget:
        garbage = await rows.garbage(min(budget - done, QUEUES_MAX))
        if not garbage:
            break
        for queue, below in garbage:
            buckets = [bucket for bucket in await rows.buckets(queue, "") if bucket < below][: budget - done]
            for bucket in buckets:
                await rows.remove_bucket(queue, bucket)
            done += len(buckets)
            done += await clear_log(queue, max(budget - done, 0))
            if done >= budget:
                return budget
            await rows.forget_garbage(queue)
    return done


async def expire(rows: Rows, caches: Caches, line: Line, budget: int, now_ms: int) -> int:
    """Messages past their retention, from the oldest on."""
    queue, oldest_ms, done = line.q.id, now_ms - line.q.retention_ms, 0
    async for bucket in buckets_of(rows, queue, line.generation):
        if start_of(bucket) > oldest_ms:
            break
        async for page in sketches_of(rows, queue, bucket):
            expired = [one.place for one in page if one.born_at_ms <= oldest_ms][: budget - done]
            if not expired:
                break  # the bucket's rest is younger
            await rows.delete(queue, expired)
            await caches.ask(partial(_forget, queue, expired))
            done += len(expired)
            if done >= budget:
                return done
    return done


async def _forget(queue: str, places: list[Place], cache: Cache) -> None:
    await cache.forget(queue, places)
