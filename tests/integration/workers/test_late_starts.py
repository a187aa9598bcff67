"""A worker that stood still, or whose store is slow: it leaves jobs to others whose lease ended before they began."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import PublishJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Delivered
from cns.notification import Notification
from cns.publishing.matching import MatchPage, SubscriptionMatcher
from cns.queue_port.contract import NewJob
from cns.stores.contract import NotificationStore
from cns.topics.cache import TopicCache
from cns_common.clock import Clock
from cns_workers.consumers.job_attempts import JobAttempts
from cns_workers.fanout import producer
from cns_workers.fanout.context import FanoutContext
from cns_workers.fanout.producer import Producer
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import embedded_context, message
from tests.integration.workers.lane_host import TOPIC, LaneHost

STANDSTILL_MS = 40_000


async def test_a_worker_that_stood_still_does_not_send_what_another_has(
    host: LaneHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.endpoints.answers["e"] = [Delivered(200, 5)] * 2
    await host.publish("1", await host.subscribed("e"))
    load, still = JobAttempts.load, [True]

    async def slow(self: JobAttempts) -> list[Target]:
        if still:
            still.clear()
            host.clock.advance(STANDSTILL_MS)
            other = host.consumer(jobs.ENDPOINT_JOBS)
            await other.step()
            await other.drain(PATIENCE_S)
        return await load(self)

    monkeypatch.setattr(JobAttempts, "load", slow)
    consumer = host.consumer(jobs.ENDPOINT_JOBS)
    await consumer.step()
    await consumer.drain(PATIENCE_S)
    assert host.endpoints.names() == ["e"]
    assert await host.port.depth(jobs.ENDPOINT_JOBS) == 0


class SlowMatcher(SubscriptionMatcher):
    """Takes a fourth of a lease for each page."""

    def __init__(self, clock: Clock) -> None:
        self._test_clock = clock

    async def page(self, topic_arn: str, notification: Notification, cursor: str, n: int) -> MatchPage:
        self._test_clock.advance(producer.LEASE_MS // 4)
        return MatchPage((f"{TOPIC.arn}:1",), "")

    def report_matched(self, notification: Notification, matched: int, part: str = "") -> None: ...


async def test_a_producer_whose_store_is_slow_begins_nothing_that_another_may_have(tmp_path: Path) -> None:
    async with embedded_context(tmp_path, [TOPIC]) as kept:
        for name in map(str, range(producer.JOBS_A_STEP)):
            body = jobs.encode(PublishJob(name, TOPIC.arn, message(TOPIC, name)))
            await kept.port.enqueue([NewJob(jobs.PUBLISH_JOBS, name, body, "a")])
        slow = Producer(
            FanoutContext(
                port=kept.port,
                topics=cast(TopicCache, None),  # the jobs name no topic id
                matcher=SlowMatcher(kept.clock),
                notifications=cast(NotificationStore, kept.context.notifications),
                references=kept.context.references,
                quarantine=kept.context.quarantine,
                stats=kept.stats,
                events=kept.events,
                clock=kept.clock,
            )
        )
        await slow.step()
        assert await kept.port.depth(jobs.ENDPOINT_JOBS) == 4
        while await kept.port.depth(jobs.PUBLISH_JOBS):
            kept.clock.advance(producer.LEASE_MS)
            await slow.step()
        assert await kept.port.depth(jobs.ENDPOINT_JOBS) == producer.JOBS_A_STEP
