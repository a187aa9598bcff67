"""Lanes: the jobs that an endpoint has no room for, their order, and jobs that are given back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob
from cns.endpoints.outcome import Cause, Failed
from cns.queue_port.contract import LeasedJob, NewJob, Renewal
from cns_common.durations import HOUR_MS
from cns_common.events.schema import DeliveryDeadLettered
from cns_common.metrics.catalogue import JOBS_FAILED
from cns_workers.consumers.consumer import SETTLE_AFTER_S
from cns_workers.consumers.lane_batch import PARK_AFTER_S
from cns_workers.consumers.lane_consumer import BATCHES_AT_ONCE_MAX, JOBS_A_RECEIVE_MAX
from cns_workers.consumers.outcome_handler import DEAD_LETTER_RETRY_MS
from cns_workers.delivery.traffic import admission as admission
from cns_workers.delivery.traffic.circuit_breaker import PROBE_PAUSE_FIRST_S
from tests.integration.workers.lane_host import DOWN, NO, REFUSED, TOOK, TOPIC, TOPICS, TURN_S, LaneHost, until

AWAY = Failed(Cause.QUEUE, "away", 5)
LATE_MS = 1_300
PAUSES = 10  # a third of the time after which a lane is looked at anyhow


async def test_a_lane_is_tried_when_the_pause_after_anothers_probe_is_over(host: LaneHost) -> None:
    """It was hidden while that probe was under way, and nobody knew how long it would be."""
    arn = await host.subscribed("dead")
    await host.fail("dead")
    host.clock.advance(int(PROBE_PAUSE_FIRST_S * 1000) + 1)
    probe = host.send("dead")
    host.work()
    await host.publish("1", arn)
    await until(lambda: host.hidden() == 1)
    probe.set_result(DOWN)
    for _ in range(PAUSES):
        if not host.endpoints.asked:
            host.clock.advance(int(PROBE_PAUSE_FIRST_S * 1000))
            await asyncio.sleep(0.05)
    host.endpoints.answer(TOOK)
    await host.until_depth(jobs.LANES, 0)


async def test_all_lanes_of_one_endpoint_hear_of_its_room_at_once(
    host: LaneHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A throttled subscription has a lane of its own. The end of one hanging send may be room for hundreds of lanes."""
    shown, settle = list[int](), host.port.settle

    async def counted(
        queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        if renewals and not any(renewal.visible_in_ms for renewal in renewals):
            shown.append(len(renewals))
        return await settle(queue, deletes, new_jobs, renewals)

    arns = [await host.subscribed("slow", per_second=10, topic=topic) for topic in TOPICS]
    hanging = host.send("slow")
    host.clock.advance(LATE_MS)
    await until(lambda: host.admission.wait_s("slow"))
    host.work()
    for number, arn in enumerate(arns):
        await host.publish(str(number), arn)
    await until(lambda: host.hidden() == len(arns))
    host.endpoints.answers["slow"] = [TOOK] * len(arns)
    monkeypatch.setattr(host.port, "settle", counted)
    hanging.set_result(TOOK)
    await host.until_depth(jobs.LANES, 0)
    assert shown == [len(arns)]


async def test_lanes_whose_endpoints_hang_leave_the_others_their_turn(host: LaneHost) -> None:
    names = [f"e{number}" for number in range(BATCHES_AT_ONCE_MAX * 2)]
    arns = [await host.subscribed(name, per_second=10) for name in names]
    host.work()
    await host.publish("1", *arns)
    await until(lambda: sorted(host.endpoints.names()) == sorted(names))
    for _, attempt in host.endpoints.asked:
        attempt.set_result(TOOK)
    await host.until_depth(jobs.LANES, 0)


async def test_as_many_are_received_as_there_was_room_for(host: LaneHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane whose endpoint has room for one is not read ahead of it; one that flows is received ten at a time."""
    monkeypatch.setattr(admission, "POLL_INTERVAL_S", TURN_S)
    received, receive = list[int](), host.port.receive

    async def counted(queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        helds = await receive(queue, n, lease_ms, wait_s)
        if queue == jobs.LANES:
            received.append(len(helds))
        return helds

    arn = await host.subscribed("e")
    hanging = host.send("e")
    host.clock.advance(LATE_MS)
    await until(lambda: host.admission.wait_s("e"))
    for number in range(40):
        await host.publish(str(number), arn)
    consumer = host.consumer(jobs.ENDPOINT_JOBS)
    while await host.port.depth(jobs.LANES) < 40:
        await consumer.step()
        await asyncio.sleep(0)
    monkeypatch.setattr(host.port, "receive", counted)
    for _ in range(6):
        hanging.set_result(DOWN)
        await until(lambda: host.endpoints.asked)
        hanging = host.endpoints.asked.pop()[1]
        await asyncio.sleep(PARK_AFTER_S * 2)  # long enough for the send to count as hanging
        for _ in range(10):
            await asyncio.sleep(0)  # after a standstill of this process: the consumer finds it hanging, too
    assert received[-1] == 1
    received.clear()
    host.endpoints.answers["e"] = [TOOK] * 40
    hanging.set_result(TOOK)
    await host.until_depth(jobs.LANES, 0)
    assert max(received) == JOBS_A_RECEIVE_MAX
    assert sum(received) < 60, "little was given back"


async def test_what_crashes_does_not_hold_up_its_lane(host: LaneHost) -> None:
    arn = await host.subscribed("e", per_second=10)
    host.endpoints.answers["e"] = [RuntimeError("cannot be rendered"), TOOK]
    await host.publish("1", arn)
    await host.publish("2", arn)
    host.loops.start("consumer", host.consumer(jobs.ENDPOINT_JOBS).step)
    await until(lambda: host.endpoints.names() == ["e", "e"])
    await host.until_depth(jobs.LANES, 0)
    assert await host.port.depth(jobs.REDELIVERY) == 1, "where its crashes are counted"


async def test_an_answer_in_the_moment_of_settling_is_settled_the_next_time(host: LaneHost) -> None:
    """The loop is busy while both fall due: the answer is there, and nobody was told of it yet."""
    arn = await host.subscribed("e", per_second=10)
    await host.publish("1", arn)
    host.loops.start("consumer", host.consumer(jobs.ENDPOINT_JOBS).step)
    await until(lambda: host.endpoints.asked)
    loop = asyncio.get_running_loop()
    loop.call_later(SETTLE_AFTER_S - 0.2, time.sleep, 0.4)
    loop.call_later(SETTLE_AFTER_S + 0.1, host.endpoints.answer, TOOK)
    await host.until_depth(jobs.LANES, 0)
    assert host.endpoints.names() == ["e"]
    assert not [sample for sample in host.context.stats.samples() if sample.name == JOBS_FAILED.name and sample.value]


async def test_while_the_dead_letter_queue_is_away_there_is_no_further_attempt(host: LaneHost) -> None:
    arn = await host.subscribed("e", dead_letters=True)
    host.endpoints.answers["e"] = [NO]
    for _ in range(2):
        host.endpoints.letters.append(asyncio.get_running_loop().create_future())
        host.endpoints.letters[-1].set_result(AWAY)
    host.work()
    await host.publish("1", arn)
    for left in (1, 0):
        await host.until_letters(left)
        await host.until_depth(jobs.ENDPOINT_JOBS, 0)
        await asyncio.sleep(0)
        host.clock.advance(DEAD_LETTER_RETRY_MS + 1)
    await until(lambda: host.endpoints.buried)
    await host.until_depth(jobs.REDELIVERY, 0)
    assert host.endpoints.names() == ["e"]
    (end,) = host.told(DeliveryDeadLettered)
    assert (end.attempt, end.cause) == (1, "permanent:status")


@pytest.mark.parametrize(
    ("is_down", "per_second", "cause"),
    [(True, 0, "open"), (False, 0, "waiting"), (True, 10, "open"), (False, 10, "throttled")],
)
async def test_a_late_message_says_what_it_waited_for(
    host: LaneHost, is_down: bool, per_second: int, cause: str
) -> None:
    """Only of an endpoint whose circuit breaker is open it says so; one that hangs is waited for, too."""
    arn = await host.subscribed("e", per_second=per_second, dead_letters=True)
    if is_down:
        await host.fail("e")
    else:
        host.send("e")
        host.clock.advance(LATE_MS)
        await until(lambda: host.admission.wait_s("e"))
    host.work()
    await host.publish("1", arn)
    await until(lambda: host.hidden() == 1)
    host.clock.advance(HOUR_MS + LATE_MS)
    await until(lambda: host.endpoints.buried)
    await host.until_depth(jobs.LANES, 0)
    (end,) = host.told(DeliveryDeadLettered)
    assert end.cause == f"deadline_while_{cause}"


async def test_a_stop_settles_what_was_answered(host: LaneHost) -> None:
    arns = [await host.subscribed(endpoint) for endpoint in ("fast", "hangs", "never")]
    host.endpoints.answers["fast"] = [TOOK]
    await host.publish("1", *arns)
    consumer = host.consumer(jobs.ENDPOINT_JOBS)
    await consumer.step()
    await until(lambda: len(host.endpoints.asked) == 3)
    assert await consumer.drain(0.01) == 1
    host.endpoints.asked.clear()
    await host.consumer(jobs.ENDPOINT_JOBS).step()
    await until(lambda: len(host.endpoints.asked) == 2)
    assert host.endpoints.names() == ["hangs", "never"]


async def test_a_stop_amid_a_settlement_loses_nothing(host: LaneHost) -> None:
    arns = [await host.subscribed("retried"), await host.subscribed("buried", dead_letters=True)]
    host.endpoints.answers |= {"retried": [REFUSED], "buried": [NO]}
    host.endpoints.letters.append(asyncio.get_running_loop().create_future())
    await host.publish("1", *arns)
    consumer = host.consumer(jobs.ENDPOINT_JOBS)
    await consumer.step()
    await until(lambda: not host.endpoints.letters)
    assert await consumer.drain(0.01) == 1
    host.endpoints.asked.clear()
    await host.consumer(jobs.ENDPOINT_JOBS).step()
    await until(lambda: len(host.endpoints.asked) == 2)
    assert host.endpoints.names() == ["retried", "buried"]


async def test_a_confirmation_waits_in_the_lane_of_its_endpoint(host: LaneHost) -> None:
    arn = await host.subscribed("dead")
    await host.fail("dead")
    host.work()
    job = ConfirmationJob("UnsubscribeConfirmation", "m", arn, TOPIC.arn, "token", 1, "http://localhost")
    await host.port.enqueue([NewJob(jobs.ENDPOINT_JOBS, "m", jobs.encode(job), TOPIC.arn)])
    await until(lambda: host.hidden() == 1)
    host.endpoints.answers["dead"] = [TOOK]
    host.clock.advance(int(PROBE_PAUSE_FIRST_S * 1000) + 1)
    await host.until_depth(jobs.LANES, 0)
    assert host.endpoints.names() == ["dead"]
