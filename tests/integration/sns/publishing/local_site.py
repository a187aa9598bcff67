"""The embedded form's publishes and queues in this process, with the parts that its API process is built of, and a
worker on the same store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import cns.api
import cqs.api
from cns.delivery import jobs
from cns.delivery.jobs import Job
from cns_backend.local_queues import LocalDelivery
from cns_backend.queue_port import queue_port
from cns_backend.services import notification_service, queue_service
from cns_backend.store_host import StoreHost
from cns_common.aws.call import Call, root_caller
from cns_common.configuration.settings import Settings
from cns_common.traces.contract import Spans
from cns_workers.worker import Worker
from cqs.internal_queues import internal_ref
from lab.harness.waiting import PATIENCE_S
from tests.recorded_events import RecordedAudit, RecordedEvents

ACCOUNT = "000000000000"
REGION = "us-east-1"
POLL_S = 0.02
RAW = {"RawMessageDelivery": "true"}


class LocalSite:
    def __init__(self, host: StoreHost, settings: Settings) -> None:
        self.host = host
        self.settings = settings
        self.backend = host.backend
        self.events = RecordedEvents()
        self.audit = RecordedAudit()
        self.trace = ""  # the traceparent of calls

    async def open(self, spans: Spans | None = None) -> None:
        queues = await queue_service(self.settings, self.backend, self.audit)
        self.delivery = LocalDelivery(self.settings, self.backend, queues, self.events, spans)
        self.port = await queue_port(self.settings, self.backend, queues)
        self.service = notification_service(self.settings, self.backend, self.port, self.events, self.delivery.queues)
        self._sns, self._sqs = cns.api.operations(self.service), cqs.api.operations(queues)

    async def sns(self, action: str, **params: Any) -> dict[str, Any]:
        return await self._sns[action](self._call(), params)

    async def sqs(self, action: str, **members: Any) -> dict[str, Any]:
        return await self._sqs[action](self._call(), members)

    async def topic(self, name: str = "t", **attributes: str) -> str:
        created = await self.sns("CreateTopic", Name=name, Attributes=attributes)
        return str(created["TopicArn"])

    async def queue(self, name: str, *, is_open: bool = True, **attributes: str) -> str:
        """The ARN of a new queue, which takes messages of topics if it is open."""
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        await self.sqs("CreateQueue", QueueName=name, Attributes=attributes)
        if is_open:
            await self.open_to_topics(arn)
        return arn

    async def open_to_topics(self, queue_arn: str, **more: object) -> None:
        allow = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": queue_arn, **more}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        await self.sqs("SetQueueAttributes", QueueUrl=url_of(queue_arn), Attributes={"Policy": policy})

    async def subscribe(self, topic: str, endpoint: str, protocol: str = "sqs", **attributes: str) -> str:
        given = {**(RAW if protocol == "sqs" else {}), **attributes}
        subscribed = await self.sns("Subscribe", TopicArn=topic, Protocol=protocol, Endpoint=endpoint, Attributes=given)
        return str(subscribed["SubscriptionArn"])

    async def publish(self, topic: str, text: str = "m", **params: Any) -> str:
        return str((await self.sns("Publish", TopicArn=topic, Message=text, **params))["MessageId"])

    async def received(self, queue_arn: str, wait_s: int = 0) -> list[dict[str, Any]]:
        """All messages that the queue gives, which are deleted."""
        found: list[dict[str, Any]] = []
        while more := await self._receive(queue_arn, 0 if found else wait_s):
            found += more
        return found

    async def texts(self, queue_arn: str, n: int) -> list[str]:
        """Wait for so many messages, and return their bodies in the order in which they came."""
        found: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < n:
                found += [message["Body"] for message in await self._receive(queue_arn, 20)]
        return found

    async def _receive(self, queue_arn: str, wait_s: int) -> list[dict[str, Any]]:
        received = await self.sqs(
            "ReceiveMessage",
            QueueUrl=url_of(queue_arn),
            MaxNumberOfMessages=10,
            WaitTimeSeconds=wait_s,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        messages: list[dict[str, Any]] = received.get("Messages", [])
        for message in messages:
            await self.sqs("DeleteMessage", QueueUrl=url_of(queue_arn), ReceiptHandle=message["ReceiptHandle"])
        return messages

    async def jobs(self) -> list[tuple[str, Job]]:
        """The jobs that wait, with their groups."""
        now_ms = self.backend.clock.now_ms()
        pages = [
            await self.backend.engine.peek(internal_ref(name), "", 1_000, now_ms)
            for name in (jobs.PUBLISH_JOBS, jobs.ENDPOINT_JOBS, jobs.REDELIVERY, jobs.LANES)
        ]
        return [(one.group, jobs.decode(one.body)) for page in pages for one in page.messages]

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker does the jobs meanwhile."""
        worker = await Worker.build(self.settings, self.backend)
        stop = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(worker.run(stop))
        yield
        stop.set_result(None)
        await running

    async def until_idle(self) -> None:
        """Wait until no job is left."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.jobs():
                await asyncio.sleep(POLL_S)

    def _call(self) -> Call:
        return Call(
            caller=root_caller(ACCOUNT),
            region=REGION,
            request_id="r",
            base_url="http://localhost:6059",
            trace_context=self.trace,
        )


def url_of(queue_arn: str) -> str:
    return f"http://localhost:6059/{ACCOUNT}/{queue_arn.rpartition(':')[2]}"


@asynccontextmanager
async def local_site(directory: Path, **settings: Any) -> AsyncIterator[LocalSite]:
    host = StoreHost(Settings(data=directory, events="off", reserve_bytes=0, recreate_wait_s=0, **settings))
    await host.start()
    try:
        site = LocalSite(host, Settings(data=directory, events="off", reserve_bytes=0, recreate_wait_s=0, **settings))
        await site.open()
        yield site
    finally:
        await host.close()
