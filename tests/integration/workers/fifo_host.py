"""A consumer of FIFO topics on an embedded store, and endpoints with prepared answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Delivered, Outcome
from cns.notification import Notification
from cns.queue_port.contract import NewJob
from cns.topics.topic import Topic
from cns_workers.consumers.fifo_consumer import FifoConsumer
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import EmbeddedContext, channels_to, message

ACCOUNT = "111111111111"
TOPIC = Topic(id="0" * 32, account=ACCOUNT, region="us-east-1", name="t.fifo", created_ms=1)


@dataclass
class PreparedEndpoints:
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


@dataclass(frozen=True, kw_only=True)
class FifoHost(EmbeddedContext):
    endpoints: PreparedEndpoints

    def consumer(self, admission: AdmissionController | None = None) -> FifoConsumer:
        admission = admission or AdmissionController(EndpointLimits(), self.clock)
        return FifoConsumer(self.context, channels_to(self.endpoints), admission)

    async def subscribed(self, name: str) -> str:
        return await self.subscribe(TOPIC, f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}", protocol="sqs")

    async def put(self, arn: str, *texts: str, group: str = "g") -> None:
        await self.port.enqueue_in_order([fifo_job(arn, text, TOPIC, group) for text in texts])

    async def work(self, rounds: int = 1) -> None:
        """Run so many receives, and all that follows from them."""
        for _ in range(rounds):
            consumer = self.consumer()
            await asyncio.wait_for(consumer.step(), PATIENCE_S)
            await consumer.drain(5.0)

    async def left(self) -> int:
        return await self.port.depth(jobs.FIFO_ENDPOINT_JOBS)


def fifo_job(arn: str, text: str, topic: Topic, group: str = "g") -> NewJob:
    body = jobs.encode(EndpointJob(text, topic.arn, (arn,), message(topic, text), "1"))
    return NewJob(jobs.FIFO_ENDPOINT_JOBS, text, body, f"{arn} {group}", dedup=f"{text}/{arn}")
