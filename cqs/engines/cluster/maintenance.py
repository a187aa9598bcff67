"""Clean-up in bounded steps: buckets of purged and dropped queues, expired messages, empty buckets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from cqs.engines.cluster.ids import QueueShard, start_of
from cqs.engines.cluster.ownership.owned_queues import OwnedQueue
from cqs.engines.cluster.refill import buckets_of, has_messages, headers_of
from cqs.engines.cluster.rows import ListedBucket, MessageRows
from cqs.engines.cluster.schema import BUCKET_SPAN_MS
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.contract import QueueRef

QUEUES_MAX = 100
EMPTY_CHECKS = 2
OLDER_VERSION_MS = 86_400_000
"""A bucket that an older version opened, without a lease, is sealed after this time."""


Clear = Callable[[str, int], Coroutine[Any, Any, int]]
"""Removes what a queue has beside its buckets, up to a budget; returns how many rows."""


class ExpiringQueue(Protocol):
    q: QueueRef
    generation: int


async def drop_empty(
    rows: MessageRows, queue: OwnedQueue, listed: Sequence[ListedBucket], budget: int, now_ms: int
) -> int:
    """Seal buckets whose writers are gone, and remove sealed ones that are empty: nothing is written after a seal.

    Messages are mostly deleted in their order: the oldest buckets are examined up to the first with messages, then
    `EMPTY_CHECKS` of the others in turn.
    """
    dropped, queue_id = 0, queue.q.id
    left = [bucket.name for bucket in listed if not bucket.sealed and not bucket.leased and _is_old(bucket, now_ms)]
    for name in left[:EMPTY_CHECKS]:
        await rows.seal(queue_id, name)
    sealed = [bucket for bucket in listed if bucket.sealed]
    while sealed and dropped < budget and await _is_empty(rows, queue, sealed[0].name):
        await rows.remove_sealed(queue_id, sealed.pop(0))
        dropped += 1
    behind = sealed[1:]
    turn = [bucket for bucket in behind if bucket.name > queue.last_examined] or behind
    for bucket in turn[: min(EMPTY_CHECKS, budget - dropped)]:
        queue.last_examined = bucket.name
        if not await has_messages(rows, queue_id, bucket.name):
            await rows.remove_sealed(queue_id, bucket)
            dropped += 1
    return dropped


async def _is_empty(rows: MessageRows, queue: OwnedQueue, bucket: str) -> bool:
    """Begins after the deleted rows of the oldest bucket that an earlier call passed."""
    before, cleared = queue.oldest
    first = await rows.first(queue.q.id, bucket, cleared if before == bucket else -1)
    if first is not None:
        queue.oldest = (bucket, first.location.seq - 1)
    return first is None


def _is_old(bucket: ListedBucket, now_ms: int) -> bool:
    """Whether its writer has begun another bucket or stopped writing. This only avoids seals of buckets that are still
    in use; the lease decides whether one can be sealed."""
    age_ms = now_ms - start_of(bucket.name)
    return age_ms > (BUCKET_SPAN_MS if bucket.state else OLDER_VERSION_MS)


async def clear_garbage(rows: MessageRows, clear_log: Clear, budget: int) -> int:
    """Remove the buckets that purges and drops left, of all queues."""
    done = 0
    while done < budget:
        garbage = await rows.garbage(min(budget - done, QUEUES_MAX))
        if not garbage:
            break
        for one in garbage:
            queue_id = one.queue_id
            buckets = [bucket for bucket in await rows.buckets(queue_id, "") if bucket < one.below][: budget - done]
            for bucket in buckets:
                await rows.remove_garbage(queue_id, bucket)
            done += len(buckets)
            done += await clear_log(queue_id, max(budget - done, 0))
            if done >= budget:
                return budget
            await rows.forget_garbage(one)
    return done


async def expire(rows: MessageRows, caches: CacheRouter, queue: ExpiringQueue, budget: int, now_ms: int) -> int:
    """Remove expired messages, oldest first."""
    queue_id, oldest_ms, done = queue.q.id, await rows.retentions.oldest_ms(queue, now_ms), 0
    async for bucket in buckets_of(rows, QueueShard(queue_id), queue.generation):
        if start_of(bucket) > oldest_ms:
            break
        async for page in headers_of(rows, queue_id, bucket):
            headers = [one for one in page if one.born_at_ms <= oldest_ms][: budget - done]
            if not headers:
                break  # later messages of the bucket have not expired
            await rows.expired.record(queue.q, [(one.id, one.tenant) for one in headers], now_ms)
            expired = [one.location for one in headers]
            await rows.delete(queue_id, expired)
            await caches.forget(queue_id, expired)
            done += len(expired)
            if done >= budget:
                return done
    return done
