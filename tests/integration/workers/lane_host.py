"""Lanes with their consumers on an embedded store, and endpoints that answer as a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cns.delivery import jobs
from cns.delivery.envelope import ConfirmationNotice
from cns.delivery.jobs import EndpointJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.notification import Notification
from cns.queue_port.contract import NewJob
from cns.topics.topic import Topic
from cns_common.events.schema import Event
from cns_common.ids import uuid_text
from cns_common.metrics.catalogue import LANES_WAITING
from cns_workers.consumers.consumer import Consumer
from cns_workers.consumers.lane_consumer import LaneConsumer
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.loops import Loops
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import (
    POLL_S,
    EmbeddedContext,
    channels_to,
    embedded_context,
    message,
)

ACCOUNT = "111111111111"
TOPICS = [Topic(id=f"{n:032}", account=ACCOUNT, region="us-east-1", name=f"t{n}", created_ms=1) for n in range(3)]
TOPIC = TOPICS[0]
LETTERS = f"arn:aws:sqs:us-east-1:{ACCOUNT}:letters"
TOOK, DOWN = Delivered(200, 5), Failed(Cause.TIMEOUT, "no answer", 15_000)
REFUSED = Failed(Cause.CONNECTION, "refused", 5)
NO = Failed(Cause.STATUS, "HTTP 400", 5, status=400, permanent=True)
TURN_S = 0.3  # longer than a settlement takes

Kind = TypeVar("Kind", bound=Event)


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

    def confirm(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> asyncio.Future[Outcome]:
        return self.begin(target.endpoint)

    async def dead_letter(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        outcome = await self.letters.pop(0) if self.letters else TOOK
        self.buried += isinstance(outcome, Delivered)
        return outcome

    def names(self) -> list[str]:
        return [endpoint for endpoint, _ in self.asked]

    def answer(self, outcome: Outcome) -> None:
        self.asked[-1][1].set_result(outcome)


@dataclass(frozen=True, kw_only=True)
class LaneHost(EmbeddedContext):
    endpoints: ScriptedEndpoints
    admission: AdmissionController
    lanes: LaneConsumer
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
        return await self.subscribe(topic, endpoint, protocol="http", attributes=attributes)

    async def publish(self, text: str, *arns: str) -> None:
        body = jobs.encode(EndpointJob(text, TOPIC.arn, arns, message(TOPIC, text)))
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

    async def until_letters(self, n: int) -> None:
        """Until the dead-letter queue has so many answers left."""
        await until(lambda: len(self.endpoints.letters) == n)

    def told(self, kind: type[Kind]) -> list[Kind]:
        """The events of this kind."""
        return [event for event in self.events.events if isinstance(event, kind)]


async def until(known: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not known():
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def lane_host(directory: Path) -> AsyncIterator[LaneHost]:
    async with embedded_context(directory, TOPICS) as kept:
        endpoints, admission = ScriptedEndpoints(), AdmissionController(EndpointLimits(), kept.clock)
        lanes, loops = LaneConsumer(kept.context, channels_to(endpoints), admission), Loops()
        loops.start("lanes", lanes.step)
        found = LaneHost(**vars(kept), endpoints=endpoints, admission=admission, lanes=lanes, loops=loops)
        yield found
        kept.port.stop_waiting()
        await loops.stop(cancel=(), grace_s=PATIENCE_S)
        await asyncio.gather(lanes.drain(0.0), *[each.drain(0.0) for each in found.consumers])
