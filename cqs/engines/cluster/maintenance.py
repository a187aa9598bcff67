"""Clean-up in bounded steps: buckets of purged and dropped queues, expired messages, empty buckets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import DROPPED, Cache
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.ids import MessageLocation, start_of
from cqs.engines.cluster.known_queues import KnownQueue, KnownQueues
from cqs.engines.cluster.refill import buckets_of, has_messages, headers_of, is_closed
from cqs.engines.cluster.rows import MessageRows

log = structlog.get_logger(__name__)

QUEUES_MAX = 100
QUEUES_AT_ONCE = 50
"""Queues of this process per step. Each costs a few statements even if there is nothing to do."""
EMPTY_CHECKS = 2
EMPTY_AGE_MS = 30_000
"""No write runs for longer than this."""


Clear = Callable[[str, int], Coroutine[Any, Any, int]]
"""Clears what a queue has beside its buckets, up to a budget; returns how much was removed."""


async def maintain_queues(
    rows: MessageRows,
    known_queues: KnownQueues,
    expire_of: Callable[[KnownQueue, int], Coroutine[Any, Any, int]],
    budget: int,
    now_ms: int,
    wall_ms: int,
) -> int:
    """Maintain some of the queues that this process uses. Returns how many rows and buckets were removed."""
    done = 0
    for queue in known_queues.next_batch(QUEUES_AT_ONCE):
        if done >= budget:
            break
        if queue.generation == DROPPED:
            continue
        try:
            done += await expire_of(queue, budget - done)
            done += await _drop_empty(rows, queue, now_ms, wall_ms)
        except CnsError as error:  # go on with the other queues
            log.warning("queue.maintenance_failed", queue=queue.q.id, error=str(error))
    return done


async def _drop_empty(rows: MessageRows, queue: KnownQueue, now_ms: int, wall_ms: int) -> int:
    """Remove closed buckets that were seen empty twice, `EMPTY_AGE_MS` apart: writes that ran at the first time have
    ended.

    Each call examines `EMPTY_CHECKS` buckets, in turn.
    """
    dropped = 0
    closed = [bucket async for bucket in buckets_of(rows, queue.q.id, queue.generation) if is_closed(bucket, now_ms)]
    turn = [bucket for bucket in closed if bucket > queue.last_examined][:EMPTY_CHECKS] or closed[:EMPTY_CHECKS]
    for bucket in turn:
        queue.last_examined = bucket
        if await has_messages(rows, queue.q.id, bucket):
            queue.seen_empty.pop(bucket, None)
        elif wall_ms - queue.seen_empty.setdefault(bucket, wall_ms) >= EMPTY_AGE_MS:
            await rows.remove_bucket(queue.q.id, bucket)
            del queue.seen_empty[bucket]
            dropped += 1
    return dropped


async def clear_garbage(rows: MessageRows, clear_log: Clear, budget: int) -> int:
    """Remove the buckets that purges and drops left, of all queues."""
    done = 0
    while done < budget:
        garbage = await rows.garbage(min(budget - done, QUEUES_MAX))
        if not garbage:
            break
        for queue_id, below in garbage:
            buckets = [bucket for bucket in await rows.buckets(queue_id, "") if bucket < below][: budget - done]
            for bucket in buckets:
                await rows.remove_bucket(queue_id, bucket)
            done += len(buckets)
            done += await clear_log(queue_id, max(budget - done, 0))
            if done >= budget:
                return budget
            await rows.forget_garbage(queue_id)
    return done


async def expire(rows: MessageRows, failover: CacheFailover, queue: KnownQueue, budget: int, now_ms: int) -> int:
    """Remove expired messages, oldest first."""
    queue_id, oldest_ms, done = queue.q.id, now_ms - queue.q.retention_ms, 0
    async for bucket in buckets_of(rows, queue_id, queue.generation):
        if start_of(bucket) > oldest_ms:
            break
        async for page in headers_of(rows, queue_id, bucket):
            expired = [one.location for one in page if one.born_at_ms <= oldest_ms][: budget - done]
            if not expired:
                break  # later messages of the bucket have not expired
            await rows.delete(queue_id, expired)
            await failover.ask(partial(_forget, queue_id, expired))
            done += len(expired)
            if done >= budget:
                return done
    return done


async def _forget(queue_id: str, locations: list[MessageLocation], cache: Cache) -> None:
    await cache.forget(queue_id, locations)
