"""Fair queues of the engine `cqs`: over several processes, after a loss of Redis, and as CNS' own queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import redis

from cns.delivery.jobs import PUBLISH_JOBS
from cns.queue_port.contract import NewJob, Refusal
from cns.queue_port.inline import InlineQueuePort
from cns_common.cassandra.connection import CassandraAddress as Cluster
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cqs.engines.contract import NOISY_IN_FLIGHT_MIN, Message
from lab.harness.own_redis import OwnRedis
from tests.conformance.support import QueueFixture
from tests.integration.cqs.engines.cache.test_redis_outage import queues, receive_soon

HELD = NOISY_IN_FLIGHT_MIN + 10


async def send(queue: QueueFixture, tenant: str, n: int) -> None:
    queue.now_ms = queue.clock.now_ms()
    await queue.send_entries([queue.entry(b"x", group=tenant) for _ in range(n)])


def tenants(messages: Sequence[Message]) -> Counter[str]:
    return Counter(message.group for message in messages)


async def test_what_one_process_handed_out_counts_in_another(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """Tenants are judged over all processes: none of four handed out enough by itself to call the tenant noisy."""
    async with queues(cassandra_address, own_redis.url, 4) as processes:
        await send(processes[0], "loud", HELD + 100)
        for queue in processes:
            assert len(await receive_soon(queue, HELD // 4, HOUR_MS)) < NOISY_IN_FLIGHT_MIN
        await send(processes[1], "quiet", 3)
        assert tenants(await receive_soon(processes[2], 3, HOUR_MS)) == {"quiet": 3}
        assert tenants(await receive_soon(processes[3], 10, HOUR_MS)) == {"loud": 10}


@pytest.mark.extended
async def test_tenants_are_known_again_after_a_loss_of_redis(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    async with queues(cassandra_address, own_redis.url, 2) as (one, two):
        await send(one, "loud", HELD + 50)
        await receive_soon(one, HELD, HOUR_MS)
        await send(one, "quiet", 5)
        with redis.Redis(port=own_redis.port) as client:
            client.flushall()
        assert tenants(await receive_soon(two, 5, HOUR_MS)) == {"quiet": 5}
        assert tenants(await receive_soon(two, 50, HOUR_MS)) == {"loud": 50}


async def test_jobs_of_a_loud_account_wait(cassandra_address: Cluster, own_redis: OwnRedis) -> None:
    """CNS' own queue: a burst of one account's publish jobs does not delay another account's."""
    clock = Clock()

    async def nowhere(*_: object) -> list[str | Refusal]:
        raise AssertionError("nothing is delivered")

    async with queues(cassandra_address, own_redis.url, 1) as (queue,):
        port = InlineQueuePort(queue.engine, clock, nowhere)
        jobs = [NewJob(PUBLISH_JOBS, f"loud-{n:03}", b"loud", "111") for n in range(HELD + 100)]
        for at in range(0, len(jobs), 10):
            await port.enqueue(jobs[at : at + 10])
        held = 0
        while held < HELD:
            held += len(await port.receive(PUBLISH_JOBS, min(10, HELD - held), HOUR_MS, 1.0))
        await port.enqueue([NewJob(PUBLISH_JOBS, "quiet", b"quiet", "222")])
        (first,) = await port.receive(PUBLISH_JOBS, 1, HOUR_MS, 1.0)
        assert first.body == b"quiet"
