"""Lanes: the jobs that an endpoint has no room for, their order, and jobs that are given back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.envelope import Confirmation
from cns.delivery.jobs import ConfirmationJob, EndpointJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.notification import Notification
from cns.queue_port.contract import LeasedJob, NewJob, Renewal
from cns.queue_port.inline import InlineQueuePort
from cns.stores.embedded import EmbeddedSubscriptionStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cns_common.events.schema import DeliveryDeadLettered
from cns_common.ids import uuid_text
from cns_common.metrics.catalogue import JOBS_FAILED, LANES_WAITING
from cns_workers.consumers.consumer import SETTLE_AFTER_S, Consumer
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.lane_batch import PARK_AFTER_S
from cns_workers.consumers.lane_consumer import BATCHES_AT_ONCE_MAX, JOBS_A_RECEIVE_MAX, LaneConsumer
from cns_workers.consumers.outcome_handler import DEAD_LETTER_RETRY_MS
from cns_workers.delivery.traffic import admission as admission
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.circuit_breaker import PROBE_PAUSE_FIRST_S
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.loops import Loops
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import channels_to, embedded_context
from tests.recorded_events import RecordedEvents

ACCOUNT = "111111111111"
TOPICS = [Topic(id=f"{n:032}", account=ACCOUNT, region="us-east-1", name=f"t{n}", created_ms=1) for n in range(3)]
TOPIC = TOPICS[0]
LETTERS = f"arn:aws:sqs:us-east-1:{ACCOUNT}:letters"
TOOK, DOWN = Delivered(200, 5), Failed(Cause.TIMEOUT, "no answer", 15_000)
REFUSED = Failed(Cause.CONNECTION, "refused", 5)
NO = Failed(Cause.STATUS, "HTTP 400", 5, status=400, permanent=True)
AWAY = Failed(Cause.QUEUE, "away", 5)
LATE_MS = 1_300
PAUSES = 10  # a third of the time after which a lane is looked at anyhow
ENOUGH_S = PATIENCE_S
TURN_S = 0.3  # longer than a settlement takes


@dataclass
class ScriptedEndpoints:
    """Endpoints that answer when the test says so, or with prepared answers."""

    answers: dict[str, list[Outcome | BaseException]] = field(default_factory=dict)
    asked: list[tuple[str, asyncio.Future[Outcome]]] = field(default_factory=list)
    letters: list[asyncio.Future[Outcome]] = field(default_factory=list)  # answers of the dead-letter queue, in turn
    buried: int = 0

    def traffic_key(self, target: Target) -> str:
        return target.endpoint

    async def room(self) -> int:
        return 1_000

    def begin(self, endpoint: str) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.asked.append((endpoint, future))
        script = self.answers.get(endpoint)
        if script:
            answer = script.pop(0)
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        return future

    def deliver(self, target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        return self.begin(target.endpoint)

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> asyncio.Future[Outcome]:
        return self.begin(target.endpoint)

    async def dead_letter(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        outcome = await self.letters.pop(0) if self.letters else TOOK
        self.buried += isinstance(outcome, Delivered)
        return outcome

    def names(self) -> list[str]:
        return [endpoint for endpoint, _ in self.asked]

    def answer(self, outcome: Outcome) -> None:
        self.asked[-1][1].set_result(outcome)


@dataclass(frozen=True, slots=True)
class Host:
    clock: Clock
    port: InlineQueuePort
    endpoints: ScriptedEndpoints
    events: RecordedEvents
    context: DeliveryContext
    admission: AdmissionController
    lanes: LaneConsumer
    subscriptions: EmbeddedSubscriptionStore
    loops: Loops
    consumers: list[Consumer] = field(default_factory=list)

    def consumer(self, queue: str) -> Consumer:
        self.consumers.append(Consumer(queue, self.context, channels_to(self.endpoints), self.admission))
        return self.consumers[-1]

    def work(self) -> None:
        """Run the consumer until the end of the test."""
        for queue in (jobs.ENDPOINT_JOBS, jobs.REDELIVERY):
            self.loops.start(queue, self.consumer(queue).step)

    async def subscribed(
        self, endpoint: str, *, per_second: int = 0, dead_letters: bool = False, topic: Topic = TOPIC
    ) -> str:
        attributes = {}
        if per_second:
            attributes["DeliveryPolicy"] = json.dumps({"throttlePolicy": {"maxReceivesPerSecond": per_second}})
        if dead_letters:
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": LETTERS})
        subscription = Subscription(
            id=uuid_text(),
            topic_arn=topic.arn,
            topic_id=topic.id,
            owner=ACCOUNT,
            principal="",
            protocol="http",
            endpoint=endpoint,
            state=SubscriptionState.CONFIRMED,
            attributes=attributes,
            created_ms=1,
        )
        assert await self.subscriptions.create(subscription, None) == subscription
        return subscription.arn

    async def publish(self, text: str, *arns: str) -> None:
        notification = Notification(id=text, topic_arn=TOPIC.arn, timestamp_ms=1, texts={"default": text})
        body = jobs.encode(EndpointJob(text, TOPIC.arn, arns, notification))
        await self.port.enqueue([NewJob(jobs.ENDPOINT_JOBS, text, body, TOPIC.arn)])

    def send(self, endpoint: str) -> asyncio.Future[Outcome]:
        """Start a send of another message."""
        self.admission.start(endpoint, uuid_text(), lambda: self.endpoints.begin(endpoint))
        return self.endpoints.asked.pop()[1]

    async def fail(self, endpoint: str) -> None:
        """Let sends fail until the endpoint's breaker is open."""
        for _ in range(EndpointLimits().failures):
            self.send(endpoint).set_result(REFUSED)
            await asyncio.sleep(0)

    def hidden(self) -> int:
        return next(int(sample.value) for sample in self.lanes.samples() if sample.name == LANES_WAITING.name)


async def _until(known: Callable[[], object]) -> None:
    async with asyncio.timeout(ENOUGH_S):
        while not known():
            await asyncio.sleep(0.02)


async def _until_letters(host: Host, n: int) -> None:
    await _until(lambda: len(host.endpoints.letters) == n)


async def _until_left(host: Host, queue: str, n: int) -> None:
    async with asyncio.timeout(ENOUGH_S):
        while await host.port.depth(queue) != n:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def lane_host(directory: Path) -> AsyncIterator[Host]:
    async with embedded_context(directory, TOPICS) as kept:
        endpoints, admission = ScriptedEndpoints(), AdmissionController(EndpointLimits(), kept.clock)
        lanes, loops = LaneConsumer(kept.context, channels_to(endpoints), admission), Loops()
        loops.start("lanes", lanes.step)
        found = Host(
            kept.clock, kept.port, endpoints, kept.events, kept.context, admission, lanes, kept.subscriptions, loops
        )
        yield found
        kept.port.stop_waiting()
        await loops.stop(cancel=(), grace_s=ENOUGH_S)
        await asyncio.gather(lanes.drain(0.0), *[each.drain(0.0) for each in found.consumers])


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with lane_host(tmp_path) as found:
        yield found


async def test_a_lane_is_tried_when_the_pause_after_anothers_probe_is_over(host: Host) -> None:
    """It was hidden while that probe was under way, and nobody knew how long it would be."""
    arn = await host.subscribed("dead")
    await host.fail("dead")
    host.clock.advance(int(PROBE_PAUSE_FIRST_S * 1000) + 1)
    probe = host.send("dead")
    host.work()
    await host.publish("1", arn)
    await _until(lambda: host.hidden() == 1)
    probe.set_result(DOWN)
    for _ in range(PAUSES):
        if not host.endpoints.asked:
            host.clock.advance(int(PROBE_PAUSE_FIRST_S * 1000))
            await asyncio.sleep(0.05)
    host.endpoints.answer(TOOK)
    await _until_left(host, jobs.LANES, 0)


async def test_all_lanes_of_one_endpoint_hear_of_its_room_at_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
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
    await _until(lambda: host.admission.wait_s("slow"))
    host.work()
    for number, arn in enumerate(arns):
        await host.publish(str(number), arn)
    await _until(lambda: host.hidden() == len(arns))
    host.endpoints.answers["slow"] = [TOOK] * len(arns)
    monkeypatch.setattr(host.port, "settle", counted)
    hanging.set_result(TOOK)
    await _until_left(host, jobs.LANES, 0)
    assert shown == [len(arns)]


async def test_lanes_whose_endpoints_hang_leave_the_others_their_turn(host: Host) -> None:
    names = [f"e{number}" for number in range(BATCHES_AT_ONCE_MAX * 2)]
    arns = [await host.subscribed(name, per_second=10) for name in names]
    host.work()
    await host.publish("1", *arns)
    await _until(lambda: sorted(host.endpoints.names()) == sorted(names))
    for _, attempt in host.endpoints.asked:
        attempt.set_result(TOOK)
    await _until_left(host, jobs.LANES, 0)


async def test_as_many_are_received_as_there_was_room_for(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
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
    await _until(lambda: host.admission.wait_s("e"))
    for number in range(40):
        await host.publish(str(number), arn)
    consumer = host.consumer(jobs.ENDPOINT_JOBS)
    while await host.port.depth(jobs.LANES) < 40:
        await consumer.step()
        await asyncio.sleep(0)
    monkeypatch.setattr(host.port, "receive", counted)
    for _ in range(6):
        hanging.set_result(DOWN)
        await _until(lambda: host.endpoints.asked)
        hanging = host.endpoints.asked.pop()[1]
        await asyncio.sleep(PARK_AFTER_S * 2)  # long enough for the send to count as hanging
        for _ in range(10):
            await asyncio.sleep(0)  # after a standstill of this process: the consumer finds it hanging, too
    assert received[-1] == 1
    received.clear()
    host.endpoints.answers["e"] = [TOOK] * 40
    hanging.set_result(TOOK)
    await _until_left(host, jobs.LANES, 0)
    assert max(received) == JOBS_A_RECEIVE_MAX
    assert sum(received) < 60, "little was given back"


async def test_what_crashes_does_not_hold_up_its_lane(host: Host) -> None:
    arn = await host.subscribed("e", per_second=10)
    host.endpoints.answers["e"] = [RuntimeError("cannot be rendered"), TOOK]
    await host.publish("1", arn)
    await host.publish("2", arn)
    host.loops.start("consumer", host.consumer(jobs.ENDPOINT_JOBS).step)
    await _until(lambda: host.endpoints.names() == ["e", "e"])
    await _until_left(host, jobs.LANES, 0)
    assert await host.port.depth(jobs.REDELIVERY) == 1, "where its crashes are counted"


async def test_an_answer_in_the_moment_of_settling_is_settled_the_next_time(host: Host) -> None:
    """The loop is busy while both fall due: the answer is there, and nobody was told of it yet."""
    arn = await host.subscribed("e", per_second=10)
    await host.publish("1", arn)
    host.loops.start("consumer", host.consumer(jobs.ENDPOINT_JOBS).step)
    await _until(lambda: host.endpoints.asked)
    loop = asyncio.get_running_loop()
    loop.call_later(SETTLE_AFTER_S - 0.2, time.sleep, 0.4)
    loop.call_later(SETTLE_AFTER_S + 0.1, host.endpoints.answer, TOOK)
    await _until_left(host, jobs.LANES, 0)
    assert host.endpoints.names() == ["e"]
    assert not [sample for sample in host.context.stats.samples() if sample.name == JOBS_FAILED.name and sample.value]


async def test_while_the_dead_letter_queue_is_away_there_is_no_further_attempt(host: Host) -> None:
    arn = await host.subscribed("e", dead_letters=True)
    host.endpoints.answers["e"] = [NO]
    for _ in range(2):
        host.endpoints.letters.append(asyncio.get_running_loop().create_future())
        host.endpoints.letters[-1].set_result(AWAY)
    host.work()
    await host.publish("1", arn)
    for left in (1, 0):
        await _until_letters(host, left)
        await _until_left(host, jobs.ENDPOINT_JOBS, 0)
        await asyncio.sleep(0)
        host.clock.advance(DEAD_LETTER_RETRY_MS + 1)
    await _until(lambda: host.endpoints.buried)
    await _until_left(host, jobs.REDELIVERY, 0)
    assert host.endpoints.names() == ["e"]
    (end,) = [event for event in host.events.events if isinstance(event, DeliveryDeadLettered)]
    assert (end.attempt, end.cause) == (1, "permanent:status")


@pytest.mark.parametrize(
    ("is_down", "per_second", "cause"),
    [(True, 0, "open"), (False, 0, "waiting"), (True, 10, "open"), (False, 10, "throttled")],
)
async def test_a_late_message_says_what_it_waited_for(host: Host, is_down: bool, per_second: int, cause: str) -> None:
    """Only of an endpoint whose circuit breaker is open it says so; one that hangs is waited for, too."""
    arn = await host.subscribed("e", per_second=per_second, dead_letters=True)
    if is_down:
        await host.fail("e")
    else:
        host.send("e")
        host.clock.advance(LATE_MS)
        await _until(lambda: host.admission.wait_s("e"))
    host.work()
    await host.publish("1", arn)
    await _until(lambda: host.hidden() == 1)
    host.clock.advance(HOUR_MS + LATE_MS)
    await _until(lambda: host.endpoints.buried)
    await _until_left(host, jobs.LANES, 0)
    (end,) = [event for event in host.events.events if isinstance(event, DeliveryDeadLettered)]
    assert end.cause == f"deadline_while_{cause}"


async def test_a_stop_settles_what_was_answered(host: Host) -> None:
    arns = [await host.subscribed(endpoint) for endpoint in ("fast", "hangs", "never")]
    host.endpoints.answers["fast"] = [TOOK]
    await host.publish("1", *arns)
    consumer = host.consumer(jobs.ENDPOINT_JOBS)
    await consumer.step()
    await _until(lambda: len(host.endpoints.asked) == 3)
    assert await consumer.drain(0.01) == 1
    host.endpoints.asked.clear()
    await host.consumer(jobs.ENDPOINT_JOBS).step()
    await _until(lambda: len(host.endpoints.asked) == 2)
    assert host.endpoints.names() == ["hangs", "never"]


async def test_a_stop_amid_a_settlement_loses_nothing(host: Host) -> None:
    arns = [await host.subscribed("retried"), await host.subscribed("buried", dead_letters=True)]
    host.endpoints.answers |= {"retried": [REFUSED], "buried": [NO]}
    host.endpoints.letters.append(asyncio.get_running_loop().create_future())
    await host.publish("1", *arns)
    consumer = host.consumer(jobs.ENDPOINT_JOBS)
    await consumer.step()
    await _until(lambda: not host.endpoints.letters)
    assert await consumer.drain(0.01) == 1
    host.endpoints.asked.clear()
    await host.consumer(jobs.ENDPOINT_JOBS).step()
    await _until(lambda: len(host.endpoints.asked) == 2)
    assert host.endpoints.names() == ["retried", "buried"]


async def test_a_confirmation_waits_in_the_lane_of_its_endpoint(host: Host) -> None:
    arn = await host.subscribed("dead")
    await host.fail("dead")
    host.work()
    job = ConfirmationJob("UnsubscribeConfirmation", "m", arn, TOPIC.arn, "token", 1, "http://localhost")
    await host.port.enqueue([NewJob(jobs.ENDPOINT_JOBS, "m", jobs.encode(job), TOPIC.arn)])
    await _until(lambda: host.hidden() == 1)
    host.endpoints.answers["dead"] = [TOOK]
    host.clock.advance(int(PROBE_PAUSE_FIRST_S * 1000) + 1)
    await _until_left(host, jobs.LANES, 0)
    assert host.endpoints.names() == ["dead"]
