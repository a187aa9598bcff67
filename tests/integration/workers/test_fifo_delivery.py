"""Deliveries of FIFO topics: the messages that a failing target delays, for how long, and the order of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.notification import Notification
from cns.portal.owner_acts import OwnerActs
from cns.queue_port.contract import LeasedJob, NewJob, Renewal
from cns.queue_port.inline import InlineQueuePort
from cns.stores.embedded import EmbeddedSubscriptionStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cns_common.ids import uuid_text
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.fifo_consumer import JOBS_A_RECEIVE, LEASE_MS, FifoConsumer
from cns_workers.consumers.job_attempts import HELD_MS_MAX
from cns_workers.consumers.paused_groups import RECHECK_MS_MAX, RECHECK_MS_MIN
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.jobs.quarantine import LEASES_MAX
from cns_workers.stats import Stats
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import channels_to, embedded_context

ACCOUNT = "111111111111"
TOPIC = Topic(id="0" * 32, account=ACCOUNT, region="us-east-1", name="t.fifo", created_ms=1)
AWAY = Failed(Cause.QUEUE, "the store is away", 0)
CLOSED = Failed(Cause.QUEUE, "AccessDenied", 0, permanent=True)
RETRIES_AT_ONCE = 3
SOON_MS = 1_500
"""AWS's policy for queues begins with three retries at once; those after them come a second later."""


@dataclass
class ScriptedEndpoints:
    """Endpoints with prepared answers. Keeps what each accepted."""

    answers: dict[str, list[Outcome]] = field(default_factory=dict)  # by endpoint; further sends are delivered
    got: list[tuple[str, str]] = field(default_factory=list)  # endpoint and text of each delivered message
    asked: list[tuple[str, str]] = field(default_factory=list)

    def traffic_key(self, target: Target) -> str:
        return ""

    def deliver(self, target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        what = (target.endpoint[-1], notification.text_for("sqs"))
        self.asked.append(what)
        script = self.answers.get(what[0])
        outcome: Outcome = script.pop(0) if script else Delivered(200, 0, "id")
        if isinstance(outcome, Delivered):
            self.got.append(what)
        future.set_result(outcome)
        return future

    def texts(self, endpoint: str) -> list[str]:
        return [text for name, text in self.got if name == endpoint]


@dataclass
class Renewals:
    """Counts what consumers write into jobs that stay."""

    visibilities: int = 0
    bodies: int = 0
    longest_ms: int = 0
    """For how long the latest settlement hides a job."""

    def watch(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        settle = host.port.settle

        async def counted(
            queue: str,
            deletes: Sequence[str] = (),
            new_jobs: Sequence[NewJob] = (),
            renewals: Sequence[Renewal] = (),
        ) -> list[bool]:
            bodies = sum(renewal.body is not None for renewal in renewals)
            self.bodies += bodies
            self.visibilities += len(renewals) - bodies
            self.longest_ms = max((renewal.visible_in_ms for renewal in renewals), default=0)
            return await settle(queue, deletes, new_jobs, renewals)

        monkeypatch.setattr(host.port, "settle", counted)


@dataclass(frozen=True, slots=True)
class Host:
    clock: Clock
    port: InlineQueuePort
    endpoints: ScriptedEndpoints
    stats: Stats
    context: DeliveryContext
    subscriptions: EmbeddedSubscriptionStore

    def consumer(self) -> FifoConsumer:
        admission = AdmissionController(EndpointLimits(), self.clock)
        return FifoConsumer(self.context, channels_to(self.endpoints), admission)

    async def subscribed(self, name: str) -> str:
        subscription = Subscription(
            id=uuid_text(),
            topic_arn=TOPIC.arn,
            topic_id=TOPIC.id,
            owner=ACCOUNT,
            principal="",
            protocol="sqs",
            endpoint=f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}",
            state=SubscriptionState.CONFIRMED,
            created_ms=1,
        )
        assert await self.subscriptions.create(subscription, None) is not None
        return subscription.arn

    async def put(self, arn: str, *texts: str, group: str = "g") -> None:
        await self.port.enqueue_in_order([self._put(arn, text, group) for text in texts])

    def _put(self, arn: str, text: str, group: str) -> NewJob:
        notification = Notification(id=text, topic_arn=TOPIC.arn, timestamp_ms=1, texts={"default": text})
        body = jobs.encode(EndpointJob(text, TOPIC.arn, (arn,), notification, "1"))
        return NewJob(jobs.FIFO_ENDPOINT_JOBS, text, body, f"{arn} {group}", dedup=f"{text}/{arn}")

    async def work(self, rounds: int = 1) -> None:
        """Run so many receives, and all that follows from them."""
        for _ in range(rounds):
            consumer = self.consumer()
            await asyncio.wait_for(consumer.step(), PATIENCE_S)
            await consumer.drain(5.0)

    async def pause(self, arn: str) -> None:
        await OwnerActs(self.subscriptions, self.clock).pause((await self.subscriptions.get([arn]))[0])

    async def resume(self, arn: str) -> None:
        await OwnerActs(self.subscriptions, self.clock).resume((await self.subscriptions.get([arn]))[0])

    async def left(self) -> int:
        return await self.port.depth(jobs.FIFO_ENDPOINT_JOBS)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with embedded_context(tmp_path, [TOPIC]) as kept:
        yield Host(kept.clock, kept.port, ScriptedEndpoints(), kept.stats, kept.context, kept.subscriptions)


@pytest.mark.spec("fifo-delivery.retried-in-place")
async def test_what_fails_is_tried_again_before_what_follows_it(host: Host) -> None:
    arn = await host.subscribed("a")
    host.endpoints.answers["a"] = [AWAY]
    await host.put(arn, "1", "2", "3")
    await host.work()
    assert host.endpoints.asked == [("a", "1")]
    await host.work()
    assert host.endpoints.texts("a") == ["1", "2", "3"]
    assert await host.left() == 0


@pytest.mark.spec("fifo-delivery.retried-in-place")
async def test_a_later_retry_waits_in_the_queue_and_its_group_with_it(host: Host) -> None:
    arn = await host.subscribed("a")
    host.endpoints.answers["a"] = [AWAY] * (RETRIES_AT_ONCE + 1)
    await host.put(arn, "1", "2")
    await host.work(RETRIES_AT_ONCE + 1)
    assert await host.port.receive(jobs.FIFO_ENDPOINT_JOBS, 10, LEASE_MS, 0) == []
    host.clock.advance(SOON_MS)
    await host.work()
    assert host.endpoints.texts("a") == ["1", "2"]
    assert host.endpoints.asked.count(("a", "1")) == RETRIES_AT_ONCE + 2


@pytest.mark.spec("fifo-delivery.others-go-on")
async def test_others_are_not_held_up(host: Host) -> None:
    failing, well = await host.subscribed("a"), await host.subscribed("b")
    host.endpoints.answers["a"] = [AWAY] * (RETRIES_AT_ONCE + 1)
    await host.put(failing, "1", "2")
    await host.put(well, "1", "2")
    await host.work(RETRIES_AT_ONCE + 1)
    assert host.endpoints.texts("b") == ["1", "2"]
    await host.put(failing, "x", group="other")
    await host.work()
    assert host.endpoints.texts("a") == ["x"]


@pytest.mark.spec("fifo-delivery.given-up")
async def test_a_permanent_failure_ends_one_and_not_its_group(host: Host) -> None:
    arn = await host.subscribed("a")
    host.endpoints.answers["a"] = [CLOSED]
    await host.put(arn, "1", "2")
    await host.work()
    assert host.endpoints.texts("a") == ["2"]
    assert await host.left() == 0


async def test_being_given_back_often_is_no_reason_for_quarantine(host: Host) -> None:
    """The jobs behind one that fails are received as often as it is."""
    arn = await host.subscribed("a")
    host.endpoints.answers["a"] = [AWAY] * 12
    await host.put(arn, "1", "2", "3")
    while await host.left():
        host.clock.advance(60_000)
        await host.work()
    assert host.endpoints.texts("a") == ["1", "2", "3"]
    assert await host.port.depth(jobs.QUARANTINE) == 0


async def test_a_job_whose_lease_runs_out_again_and_again_is_set_aside(host: Host) -> None:
    arn = await host.subscribed("a")
    await host.put(arn, "1", "2")
    for _ in range(LEASES_MAX):
        (held,) = await host.port.receive(jobs.FIFO_ENDPOINT_JOBS, 1, LEASE_MS, 0)
        assert not await host.context.quarantine.intercept(jobs.FIFO_ENDPOINT_JOBS, held, TOPIC.arn)
        host.clock.advance(LEASE_MS + 1)  # as if the process had died
    await host.work()
    assert host.endpoints.texts("a") == ["2"]
    assert await host.port.depth(jobs.QUARANTINE) == 1


async def test_a_subscription_that_is_gone_holds_up_nothing(host: Host) -> None:
    arn = await host.subscribed("a")
    await host.put(arn, "1", "2")
    await host.subscriptions.remove(arn)
    await host.work()
    assert (host.endpoints.asked, await host.left()) == ([], 0)


async def test_who_has_lost_its_leases_sends_nothing_more(host: Host) -> None:
    """A consumer whose leases were taken over sends nothing more: another one has the whole run, and is ahead with
    it."""
    arn = await host.subscribed("a")
    await host.put(arn, "1", "2", "3")
    endpoints, answer = host.endpoints, asyncio.get_running_loop().create_future()
    start, endpoints.deliver = endpoints.deliver, lambda target, notification: answer  # type: ignore[method-assign]  # a slow one
    slow = host.consumer()
    await slow.step()
    await asyncio.sleep(0)
    endpoints.deliver = start  # type: ignore[method-assign]  # as before
    host.clock.advance(LEASE_MS + 1)
    await host.work()
    answer.set_result(Delivered(200, 0, "id"))
    await slow.drain(5.0)
    assert endpoints.texts("a") == ["1", "2", "3"]


async def test_what_was_delivered_before_the_store_went_away_is_not_sent_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = await host.subscribed("a")
    await host.put(arn, "1", "2", "3")
    find, looks = host.context.targets.find, iter([True, True, False])

    async def once_away(arns: Sequence[str]) -> list[Target]:
        if not next(looks, True):
            raise StoreUnavailable("away")
        return await find(arns)

    monkeypatch.setattr(host.context.targets, "find", once_away)
    await host.work()
    host.clock.advance(LEASE_MS + 1)
    await host.work()
    assert host.endpoints.texts("a") == ["1", "2", "3"]


async def test_a_stop_gives_back_what_was_not_tried(host: Host) -> None:
    arn = await host.subscribed("a")
    await host.put(arn, "1", "2")
    hanging = asyncio.get_running_loop().create_future()
    endpoints = host.endpoints
    start, endpoints.deliver = endpoints.deliver, lambda target, notification: hanging  # type: ignore[method-assign]  # one that never answers
    consumer = host.consumer()
    await consumer.step()
    assert await consumer.drain(0.01) == 1
    endpoints.deliver = start  # type: ignore[method-assign]  # as before
    await host.work()
    assert endpoints.texts("a") == ["1", "2"]


async def test_a_paused_subscription_holds_its_group_in_order(host: Host) -> None:
    paused, other = await host.subscribed("a"), await host.subscribed("b")
    await host.pause(paused)
    for arn in (paused, other):
        await host.put(arn, "1", "2")
    await host.work()
    assert (host.endpoints.texts("a"), host.endpoints.texts("b")) == ([], ["1", "2"])
    host.clock.advance(RECHECK_MS_MIN)
    await host.work()
    assert host.endpoints.texts("a") == []
    await host.resume(paused)
    await host.work()  # long before the periodic look at the group
    assert host.endpoints.texts("a") == ["1", "2"]
    assert await host.left() == 0


async def test_a_resumption_that_was_not_announced_goes_on_when_the_cache_is_emptied(host: Host) -> None:
    """As in a cluster without Redis: another process resumes the subscription."""
    arn = await host.subscribed("a")
    await host.pause(arn)
    await host.put(arn, "1", "2")
    await host.put(arn, "x", group="other")
    await host.work()
    changed, host.subscriptions.changed[:] = list(host.subscriptions.changed), []
    await host.resume(arn)
    host.subscriptions.changed[:] = changed
    assert await host.port.receive(jobs.FIFO_ENDPOINT_JOBS, 10, LEASE_MS, 0) == []
    host.context.targets.forget_all()  # as happens every CACHE_AGE_S
    while await host.left():
        await host.work()  # long before the periodic look at the groups
    assert [text for text in host.endpoints.texts("a") if text != "x"] == ["1", "2"]
    assert host.endpoints.texts("a").count("x") == 1


async def test_a_pause_of_days_writes_nothing_into_jobs(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    arn = await host.subscribed("a")
    await host.pause(arn)
    await host.put(arn, "1", "2", "3")
    renewals = Renewals()
    renewals.watch(host, monkeypatch)
    looks, until_ms = 0, host.clock.now_ms() + 3_600_000
    while host.clock.now_ms() < until_ms:
        await host.work()
        looks += 1
        host.clock.advance(renewals.longest_ms)
    assert 2 * LEASES_MAX < looks <= 6 + 2 * 3_600_000 // RECHECK_MS_MAX
    assert (renewals.visibilities, renewals.bodies, host.endpoints.asked) == (3 * looks, 0, [])


async def test_the_leases_of_a_pause_do_not_count_and_those_after_it_do(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = await host.subscribed("a")
    await host.pause(arn)
    await host.put(arn, "1", "2")
    for _ in range(2 * LEASES_MAX):
        await host.work()
        host.clock.advance(RECHECK_MS_MAX)
    renewals = Renewals()
    renewals.watch(host, monkeypatch)
    await host.resume(arn)
    host.endpoints.answers["a"] = [AWAY]
    await host.work()
    assert host.endpoints.asked == [("a", "1")]
    assert renewals.bodies == 2 + 2  # once to renew the leases, once to give back
    for _ in range(LEASES_MAX - 2):
        assert len(await host.port.receive(jobs.FIFO_ENDPOINT_JOBS, 2, LEASE_MS, 0)) == 2
        host.clock.advance(LEASE_MS + 1)  # as if the process had died
    trials, intercept = [], host.context.quarantine.intercept

    async def counted(queue: str, leased: LeasedJob, topic: str, *, expected: int = 0) -> bool:
        trials.append(leased.deliveries - expected)
        return await intercept(queue, leased, topic, expected=expected)

    monkeypatch.setattr(host.context.quarantine, "intercept", counted)
    await host.work()
    assert trials == [LEASES_MAX - 1] * 2
    assert host.endpoints.texts("a") == ["1", "2"]


async def test_a_subscription_that_is_paused_again_holds_its_group_again(host: Host) -> None:
    arn = await host.subscribed("a")
    await host.put(arn, "1", "2")
    for _ in range(3):
        await host.pause(arn)
        await host.work()
        host.clock.advance(1)
        host.endpoints.answers["a"] = [AWAY]
        await host.resume(arn)
        await host.work()
        assert host.endpoints.texts("a") == []
    await host.work()
    assert host.endpoints.texts("a") == ["1", "2"]


async def test_a_fifo_message_is_not_held_for_ever(host: Host) -> None:
    arn = await host.subscribed("a")
    await host.pause(arn)
    texts = [str(n) for n in range(JOBS_A_RECEIVE + 2)]
    await host.put(arn, *texts)
    await host.work()
    assert await host.left() == len(texts)
    host.clock.advance(HELD_MS_MAX + 1)
    await host.work(2)  # those never received are included
    assert await host.left() == 0 and host.endpoints.asked == []
