"""The cost of the counts of a queue does not grow with the messages that were deleted from it."""

from __future__ import annotations

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.cluster.lease import LeaseTimes
from cns_common.durations import HOUR_MS
from cqs.engines.cluster import open_engine, views
from cqs.engines.cluster.ids import COUNTER_BITS, start_of
from cqs.engines.cluster.no_redis import counts as fallback_counts
from cqs.engines.cluster.refill import RECONCILE_AGE_MS
from cqs.engines.cluster.rows import MessageRows, RowHeader
from lab.harness.keyspace import asked
from lab.harness.own_redis import OwnRedis
from tests.conformance.support import QueueFixture, numbered
from tests.integration.cqs.engines.test_cluster_engine import open_with_session

BATCH = 10


async def test_counts_after_deletes(
    cassandra_address: CassandraAddress, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts ask Redis only. The search for the oldest message passes over deleted rows once."""
    monkeypatch.setattr(views, "TIMES", LeaseTimes(HOUR_MS, HOUR_MS))  # its statements are not the counts'
    searched: list[int] = []
    first = MessageRows.first

    async def noted_first(rows: MessageRows, queue_id: str, bucket: str, after_seq: int) -> RowHeader | None:
        searched.append(after_seq)
        return await first(rows, queue_id, bucket, after_seq)

    monkeypatch.setattr(MessageRows, "first", noted_first)
    clock = Clock()
    async with open_with_session(cassandra_address, own_redis.url, clock) as (engine, cassandra):
        queue = QueueFixture(engine, clock)
        for _ in range(3):
            await queue.send(*numbered(BATCH))
        taken = [message for _ in range(3) for message in await queue.take(BATCH)]
        oldest = sorted(taken, key=lambda message: message.sequence)[: 2 * BATCH]
        await queue.delete(*oldest)
        queue.advance(2 * RECONCILE_AGE_MS)
        before = asked(cassandra)
        counts = await engine.counts(queue.q, queue.now_ms)
        assert (counts.in_flight, counts.oldest_born_at_ms) == (BATCH, 0)
        assert asked(cassandra) == before
        oldest_ms = (await engine.counts(queue.q, queue.now_ms, oldest=True)).oldest_born_at_ms
        again = await engine.counts(queue.q, queue.now_ms, oldest=True)
        assert again.oldest_born_at_ms == oldest_ms
        (bucket,) = await engine._rows.buckets(queue.q.id, "")
        deleted = [message.sequence - (start_of(bucket) << COUNTER_BITS) for message in oldest]
        assert searched[0] < min(deleted)
        assert searched[-1] >= max(deleted)


async def test_counts_without_redis_after_deletes(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They read the rows of other processes' buckets; those that were deleted at the beginning only once."""
    monkeypatch.setattr(fallback_counts, "SCAN_REST_FACTOR", 0)
    scanned: list[tuple[str, int]] = []
    headers = MessageRows.headers

    async def noted_headers(
        rows: MessageRows, queue_id: str, bucket: str, after_seq: int
    ) -> tuple[list[RowHeader], int | None]:
        scanned.append((rows.node, after_seq))
        return await headers(rows, queue_id, bucket, after_seq)

    monkeypatch.setattr(MessageRows, "headers", noted_headers)
    cassandra = await Cassandra.open(cassandra_address)
    clock = Clock()
    async with open_engine(cassandra, "", clock) as engine, open_engine(cassandra, "", clock) as counting:
        queue = QueueFixture(engine, clock)
        for _ in range(3):
            await queue.send(*numbered(BATCH))
        taken = [message for _ in range(3) for message in await queue.take(BATCH)]
        oldest = sorted(taken, key=lambda message: message.sequence)[: 2 * BATCH]
        await queue.delete(*oldest)
        later_ms = queue.now_ms + 2 * fallback_counts.LATE_MS_MAX
        seen = queue.at(counting)
        seen.now_ms = later_ms
        for _ in range(2):
            assert sum(await seen.counts()) == BATCH
            peeked = await counting.peek(queue.q, "", 3, later_ms)
            assert [message.id for message in peeked.messages] == [
                message.id for message in sorted(taken, key=lambda message: message.sequence)[2 * BATCH :][:3]
            ]
        (bucket,) = await engine._rows.buckets(queue.q.id, "")
        last = max(message.sequence for message in oldest) - (start_of(bucket) << COUNTER_BITS)
        first_scan, *later = [after_seq for node, after_seq in scanned if node == counting._rows.node]
        assert first_scan == -1
        assert later
        assert min(later) >= last
    await cassandra.close()
