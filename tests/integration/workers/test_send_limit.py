"""A worker takes no more jobs than it may send, so one publish to very many subscriptions takes a bounded part of its
memory. Deliveries that end at about the same time are settled together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from typing import Any, cast

import pytest

from cns.delivery import jobs
from cns.delivery.envelope_cache import EnvelopeCache
from cns.delivery.jobs import TARGETS_MAX, EndpointJob
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.target import Target
from cns.endpoints.contract import Senders
from cns.notification import Notification
from cns.queue_port.contract import NewJob, QueueMessage, QueuePort, Refusal
from cns.queue_port.inline import InlineQueuePort
from cns.subscriptions.subscription import Subscription
from cns.topics.topic import Topic
from cns_workers.consumers.consumer import SETTLE_TOGETHER_S, Consumer
from cns_workers.delivery.channel import Attempt
from cns_workers.delivery.channels import Channels
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.sqs_channel import QUEUE_SENDS_MAX, SqsChannel
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.loops import Loops
from lab.harness.waiting import PATIENCE_S
from tests.integration.sns.stores.cns_stores import subscription
from tests.integration.workers.embedded_context import embedded_context, message
from tests.turns import Turns

TOPIC = Topic(id="0" * 32, account="111111111111", region="us-east-1", name="t", created_ms=1)
JOBS = 40
AT_ONCE_MAX = 2 * QUEUE_SENDS_MAX
"""The most deliveries at once: as many jobs are received as there is room for, and those of the last receive come on
top."""
POLL_INTERVAL_S = 1.0


@dataclass
class Queues:
    """Stands for the endpoints, which take what they are sent when they are let."""

    let: asyncio.Event = field(default_factory=asyncio.Event)
    many: asyncio.Event = field(default_factory=asyncio.Event)
    too_many: asyncio.Event = field(default_factory=asyncio.Event)
    all: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: int = 0
    taken: int = 0
    answers_after_s: Iterator[float] = field(default_factory=lambda: repeat(0.0))

    async def take(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        await self.let.wait()
        await asyncio.sleep(next(self.answers_after_s))
        self.taken += len(messages)
        if self.taken == JOBS * TARGETS_MAX:
            self.all.set()
        return ["id" for _ in messages]

    def begun(self) -> None:
        self.under_way += 1
        if self.under_way >= QUEUE_SENDS_MAX:
            self.many.set()
        if self.under_way > AT_ONCE_MAX:
            self.too_many.set()

    def ended(self, _: Attempt) -> None:
        self.under_way -= 1


class CountedChannel(SqsChannel):
    """Notifies the test of its sends."""

    def __init__(self, port: QueuePort, pool: DeliveryPool, queues: Queues) -> None:
        # nothing is rendered for raw deliveries
        super().__init__(port, pool, cast(EnvelopeCache, None), RemoteQueueResolver(()))
        self._queues = queues

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        attempt = super().deliver(target, notification)
        self._queues.begun()
        attempt.add_done_callback(self._queues.ended)
        return attempt


@dataclass(frozen=True, slots=True)
class SendLimitFixture:
    port: InlineQueuePort
    queues: Queues
    consumer: Consumer


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[SendLimitFixture]:
    queues = Queues()
    async with embedded_context(tmp_path, [TOPIC], queues.take) as kept:
        pool = DeliveryPool("none", 0, lambda: Senders({}))
        channel = CountedChannel(kept.port, pool, queues)
        channels = Channels(pool, channel, {"sqs": channel})
        wanted = [kept.subscriptions.create(_subscription(number), None) for number in range(TARGETS_MAX)]
        await asyncio.gather(*wanted)
        consumer = Consumer(
            jobs.ENDPOINT_JOBS, kept.context, channels, AdmissionController(EndpointLimits(), kept.clock)
        )
        yield SendLimitFixture(kept.port, queues, consumer)


async def test_jobs_wait_where_they_are_while_too_many_sends_are_under_way(fixture: SendLimitFixture) -> None:
    await fixture.port.enqueue([_job(number) for number in range(JOBS)])
    loops = Loops()
    loops.start("consumer", fixture.consumer.step)
    await asyncio.wait_for(fixture.queues.many.wait(), PATIENCE_S)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(fixture.queues.too_many.wait(), POLL_INTERVAL_S)
    fixture.queues.let.set()
    await asyncio.wait_for(fixture.queues.all.wait(), PATIENCE_S)
    fixture.port.stop_waiting()
    await loops.stop(cancel=(), grace_s=10.0)
    assert await fixture.consumer.drain(10.0) == 0
    assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == 0


async def test_jobs_that_end_one_after_another_are_settled_together(
    fixture: SendLimitFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = fixture.port.settle
    turns = Turns()

    async def settle(*arguments: Any, **named: Any) -> list[bool]:
        turns.say("settle")
        return await each(*arguments, **named)

    monkeypatch.setattr(fixture.port, "settle", settle)
    fixture.queues.answers_after_s = (number // TARGETS_MAX * SETTLE_TOGETHER_S / 10 for number in count())
    fixture.queues.let.set()
    await fixture.port.enqueue([_job(number) for number in range(5)])
    await fixture.consumer.step()
    assert await fixture.consumer.drain(10.0) == 0
    assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == 0
    settled = sum(len(turn) for turn in turns.said)
    assert settled >= 5
    assert len(turns.said) <= settled - 3, "five ends within half of the time"


def _job(number: int) -> NewJob:
    text = f"n{number}"
    arns = tuple([_subscription(target).arn for target in range(TARGETS_MAX)])
    body = jobs.encode(EndpointJob(text, TOPIC.arn, arns, message(TOPIC, text)))
    return NewJob(jobs.ENDPOINT_JOBS, str(number), body, TOPIC.arn)


def _subscription(number: int) -> Subscription:
    queue = f"arn:aws:sqs:us-east-1:{TOPIC.account}:q{number}"
    return subscription(TOPIC, queue, id=f"{number:08}", protocol="sqs")  # nothing is rendered for raw deliveries
