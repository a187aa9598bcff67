"""Deliveries of FIFO topics: the messages that a failing target delays, for how long, and the order of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from cns.delivery import jobs
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed
from cns.queue_port.contract import LeasedJob, NewJob, Renewal
from cns_common.errors import StoreUnavailable
from cns_workers.consumers.fifo_consumer import JOBS_A_RECEIVE, LEASE_MS
from cns_workers.consumers.job_attempts import HELD_MS_MAX
from cns_workers.consumers.paused_groups import RECHECK_MS_MAX, RECHECK_MS_MIN
from cns_workers.jobs.quarantine import LEASES_MAX
from tests.integration.workers.fifo_host import TOPIC, FifoHost

AWAY = Failed(Cause.QUEUE, "the store is away", 0)
CLOSED = Failed(Cause.QUEUE, "AccessDenied", 0, permanent=True)
RETRIES_AT_ONCE = 3
SOON_MS = 1_500
"""AWS's policy for queues begins with three retries at once; those after them come a second later."""


@dataclass
class Renewals:
    """Counts what consumers write into jobs that stay."""

    visibilities: int = 0
    bodies: int = 0
    longest_ms: int = 0
    """For how long the latest settlement hides a job."""

    def watch(self, fifo: FifoHost, monkeypatch: pytest.MonkeyPatch) -> None:
        settle = fifo.port.settle

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

        monkeypatch.setattr(fifo.port, "settle", counted)


@pytest.mark.spec("fifo-delivery.retried-in-place")
async def test_what_fails_is_tried_again_before_what_follows_it(fifo: FifoHost, arn: str) -> None:
    fifo.endpoints.answers["a"] = [AWAY]
    await fifo.put(arn, "1", "2", "3")
    await fifo.work()
    assert fifo.endpoints.asked == [("a", "1")]
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["1", "2", "3"]
    assert await fifo.left() == 0


@pytest.mark.spec("fifo-delivery.retried-in-place")
async def test_a_later_retry_waits_in_the_queue_and_its_group_with_it(fifo: FifoHost, arn: str) -> None:
    fifo.endpoints.answers["a"] = [AWAY] * (RETRIES_AT_ONCE + 1)
    await fifo.put(arn, "1", "2")
    await fifo.work(RETRIES_AT_ONCE + 1)
    assert await fifo.port.receive(jobs.FIFO_ENDPOINT_JOBS, 10, LEASE_MS, 0) == []
    fifo.clock.advance(SOON_MS)
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["1", "2"]
    assert fifo.endpoints.asked.count(("a", "1")) == RETRIES_AT_ONCE + 2


@pytest.mark.spec("fifo-delivery.others-go-on")
async def test_others_are_not_held_up(fifo: FifoHost) -> None:
    failing, well = await fifo.subscribed("a"), await fifo.subscribed("b")
    fifo.endpoints.answers["a"] = [AWAY] * (RETRIES_AT_ONCE + 1)
    await fifo.put(failing, "1", "2")
    await fifo.put(well, "1", "2")
    await fifo.work(RETRIES_AT_ONCE + 1)
    assert fifo.endpoints.texts("b") == ["1", "2"]
    await fifo.put(failing, "x", group="other")
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["x"]


@pytest.mark.spec("fifo-delivery.given-up")
async def test_a_permanent_failure_ends_one_and_not_its_group(fifo: FifoHost, arn: str) -> None:
    fifo.endpoints.answers["a"] = [CLOSED]
    await fifo.put(arn, "1", "2")
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["2"]
    assert await fifo.left() == 0


async def test_being_given_back_often_is_no_reason_for_quarantine(fifo: FifoHost, arn: str) -> None:
    """The jobs behind one that fails are received as often as it is."""
    fifo.endpoints.answers["a"] = [AWAY] * 12
    await fifo.put(arn, "1", "2", "3")
    while await fifo.left():
        fifo.clock.advance(60_000)
        await fifo.work()
    assert fifo.endpoints.texts("a") == ["1", "2", "3"]
    assert await fifo.port.depth(jobs.QUARANTINE) == 0


async def test_a_job_whose_lease_runs_out_again_and_again_is_set_aside(fifo: FifoHost, arn: str) -> None:
    await fifo.put(arn, "1", "2")
    for _ in range(LEASES_MAX):
        (held,) = await fifo.port.receive(jobs.FIFO_ENDPOINT_JOBS, 1, LEASE_MS, 0)
        assert not await fifo.context.quarantine.intercept(jobs.FIFO_ENDPOINT_JOBS, held, TOPIC.arn)
        fifo.clock.advance(LEASE_MS + 1)  # as if the process had died
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["2"]
    assert await fifo.port.depth(jobs.QUARANTINE) == 1


async def test_a_subscription_that_is_gone_holds_up_nothing(fifo: FifoHost, arn: str) -> None:
    await fifo.put(arn, "1", "2")
    await fifo.subscriptions.remove(arn)
    await fifo.work()
    assert (fifo.endpoints.asked, await fifo.left()) == ([], 0)


async def test_who_has_lost_its_leases_sends_nothing_more(fifo: FifoHost, arn: str) -> None:
    """A consumer whose leases were taken over sends nothing more: another one has the whole run, and is ahead with
    it."""
    await fifo.put(arn, "1", "2", "3")
    endpoints, answer = fifo.endpoints, asyncio.get_running_loop().create_future()
    start, endpoints.deliver = endpoints.deliver, lambda target, notification: answer  # type: ignore[method-assign]  # a slow one
    slow = fifo.consumer()
    await slow.step()
    await asyncio.sleep(0)
    endpoints.deliver = start  # type: ignore[method-assign]  # as before
    fifo.clock.advance(LEASE_MS + 1)
    await fifo.work()
    answer.set_result(Delivered(200, 0, "id"))
    await slow.drain(5.0)
    assert endpoints.texts("a") == ["1", "2", "3"]


async def test_what_was_delivered_before_the_store_went_away_is_not_sent_again(
    fifo: FifoHost, arn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fifo.put(arn, "1", "2", "3")
    find, looks = fifo.context.targets.find, iter([True, True, False])

    async def once_away(arns: Sequence[str]) -> list[Target]:
        if not next(looks, True):
            raise StoreUnavailable("away")
        return await find(arns)

    monkeypatch.setattr(fifo.context.targets, "find", once_away)
    await fifo.work()
    fifo.clock.advance(LEASE_MS + 1)
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["1", "2", "3"]


async def test_a_stop_gives_back_what_was_not_tried(fifo: FifoHost, arn: str) -> None:
    await fifo.put(arn, "1", "2")
    hanging = asyncio.get_running_loop().create_future()
    endpoints = fifo.endpoints
    start, endpoints.deliver = endpoints.deliver, lambda target, notification: hanging  # type: ignore[method-assign]  # one that never answers
    consumer = fifo.consumer()
    await consumer.step()
    assert await consumer.drain(0.01) == 1
    endpoints.deliver = start  # type: ignore[method-assign]  # as before
    await fifo.work()
    assert endpoints.texts("a") == ["1", "2"]


async def test_a_paused_subscription_holds_its_group_in_order(fifo: FifoHost) -> None:
    paused, other = await fifo.subscribed("a"), await fifo.subscribed("b")
    await fifo.pause(paused)
    for arn in (paused, other):
        await fifo.put(arn, "1", "2")
    await fifo.work()
    assert (fifo.endpoints.texts("a"), fifo.endpoints.texts("b")) == ([], ["1", "2"])
    fifo.clock.advance(RECHECK_MS_MIN)
    await fifo.work()
    assert fifo.endpoints.texts("a") == []
    await fifo.resume(paused)
    await fifo.work()  # long before the periodic look at the group
    assert fifo.endpoints.texts("a") == ["1", "2"]
    assert await fifo.left() == 0


async def test_a_resumption_that_was_not_announced_goes_on_when_the_cache_is_emptied(fifo: FifoHost, arn: str) -> None:
    """As in a cluster without Redis: another process resumes the subscription."""
    await fifo.pause(arn)
    await fifo.put(arn, "1", "2")
    await fifo.put(arn, "x", group="other")
    await fifo.work()
    changed, fifo.subscriptions.changed[:] = list(fifo.subscriptions.changed), []
    await fifo.resume(arn)
    fifo.subscriptions.changed[:] = changed
    assert await fifo.port.receive(jobs.FIFO_ENDPOINT_JOBS, 10, LEASE_MS, 0) == []
    fifo.context.targets.forget_all()  # as happens every CACHE_AGE_S
    while await fifo.left():
        await fifo.work()  # long before the periodic look at the groups
    assert [text for text in fifo.endpoints.texts("a") if text != "x"] == ["1", "2"]
    assert fifo.endpoints.texts("a").count("x") == 1


async def test_a_pause_of_days_writes_nothing_into_jobs(
    fifo: FifoHost, arn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fifo.pause(arn)
    await fifo.put(arn, "1", "2", "3")
    renewals = Renewals()
    renewals.watch(fifo, monkeypatch)
    looks, until_ms = 0, fifo.clock.now_ms() + 3_600_000
    while fifo.clock.now_ms() < until_ms:
        await fifo.work()
        looks += 1
        fifo.clock.advance(renewals.longest_ms)
    assert 2 * LEASES_MAX < looks <= 6 + 2 * 3_600_000 // RECHECK_MS_MAX
    assert (renewals.visibilities, renewals.bodies, fifo.endpoints.asked) == (3 * looks, 0, [])


async def test_the_leases_of_a_pause_do_not_count_and_those_after_it_do(
    fifo: FifoHost, arn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fifo.pause(arn)
    await fifo.put(arn, "1", "2")
    for _ in range(2 * LEASES_MAX):
        await fifo.work()
        fifo.clock.advance(RECHECK_MS_MAX)
    renewals = Renewals()
    renewals.watch(fifo, monkeypatch)
    await fifo.resume(arn)
    fifo.endpoints.answers["a"] = [AWAY]
    await fifo.work()
    assert fifo.endpoints.asked == [("a", "1")]
    assert renewals.bodies == 2 + 2  # once to renew the leases, once to give back
    for _ in range(LEASES_MAX - 2):
        assert len(await fifo.port.receive(jobs.FIFO_ENDPOINT_JOBS, 2, LEASE_MS, 0)) == 2
        fifo.clock.advance(LEASE_MS + 1)  # as if the process had died
    trials, intercept = [], fifo.context.quarantine.intercept

    async def counted(queue: str, leased: LeasedJob, topic: str, *, expected: int = 0) -> bool:
        trials.append(leased.deliveries - expected)
        return await intercept(queue, leased, topic, expected=expected)

    monkeypatch.setattr(fifo.context.quarantine, "intercept", counted)
    await fifo.work()
    assert trials == [LEASES_MAX - 1] * 2
    assert fifo.endpoints.texts("a") == ["1", "2"]


async def test_a_subscription_that_is_paused_again_holds_its_group_again(fifo: FifoHost, arn: str) -> None:
    await fifo.put(arn, "1", "2")
    for _ in range(3):
        await fifo.pause(arn)
        await fifo.work()
        fifo.clock.advance(1)
        fifo.endpoints.answers["a"] = [AWAY]
        await fifo.resume(arn)
        await fifo.work()
        assert fifo.endpoints.texts("a") == []
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["1", "2"]


async def test_a_fifo_message_is_not_held_for_ever(fifo: FifoHost, arn: str) -> None:
    await fifo.pause(arn)
    texts = [str(n) for n in range(JOBS_A_RECEIVE + 2)]
    await fifo.put(arn, *texts)
    await fifo.work()
    assert await fifo.left() == len(texts)
    fifo.clock.advance(HELD_MS_MAX + 1)
    await fifo.work(2)  # those never received are included
    assert await fifo.left() == 0 and fifo.endpoints.asked == []
