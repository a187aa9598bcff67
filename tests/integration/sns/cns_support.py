"""The notification service over embedded stores and a recording queue, called like by the front door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cns.api import operations
from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob, EndpointJob, Job, PublishJob
from cns.limits import Quotas
from cns.queue_port.contract import EnqueuedJob, LeasedJob, NewJob, QueueMessage, QueuePort, Refusal, Renewal
from cns.service import NotificationService
from cns.stores.embedded import (
    EmbeddedArchiveStore,
    EmbeddedMobileEndpointStore,
    EmbeddedNotificationStore,
    EmbeddedPlatformStore,
    EmbeddedReplayStore,
    EmbeddedSmsStore,
    EmbeddedSubscriptionStore,
    EmbeddedTopicStore,
)
from cns.subscriptions.subscribe import UrlChecks
from cns_common.aws.call import ANONYMOUS, Call, root_caller
from cns_common.aws.protocol.faults import find_fault
from cns_common.aws.protocol.models import load_service
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.sealing import MASTER_KEY_BYTES, Seal
from cns_common.sqlite.database import Database
from tests.recorded_events import RecordedEvents

ACCOUNT = "111111111111"
OTHER = "222222222222"
REGION = "eu-west-1"
AUTHORIZED_ONLY = ("AuthorizationError", "This subscription may only be deleted by an authorized user.")
BASE_URL = "http://localhost:6059"
TOPIC_COLONS = 5
"""The colons in the ARN of a topic."""


class RecordingQueue:
    """A queue port that only records the jobs put into it, and what is delivered to customers' queues."""

    def __init__(self) -> None:
        self.new_jobs: list[NewJob] = []
        self.delivered: list[tuple[str, QueueMessage]] = []

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None:
        self.new_jobs += new_jobs

    async def enqueue_in_order(self, new_jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
        self.new_jobs += new_jobs
        return [EnqueuedJob(job.id, f"{number:020d}", duplicate=False) for number, job in enumerate(new_jobs)]

    def take(self) -> list[Job]:
        """The jobs enqueued since the last call."""
        taken, self.new_jobs = self.new_jobs, []
        return [jobs.decode(job.body) for job in taken]

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        raise NotImplementedError

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        raise NotImplementedError

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        self.delivered += [(queue_arn, message) for message in messages]
        return ["id"] * len(messages)

    async def depth(self, queue: str) -> int:
        raise NotImplementedError

    def stop_waiting(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Rig:
    """`await rig("CreateTopic", Name="t")` is a call signed by `ACCOUNT`."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        quotas: Quotas,
        *,
        sms_sandbox: bool = False,
        port: QueuePort | None = None,
    ) -> None:
        self.clock = clock
        self.queue = RecordingQueue()
        self.events = RecordedEvents()
        self.topics = EmbeddedTopicStore(database)
        self.subscriptions = EmbeddedSubscriptionStore(database)
        self.notifications = EmbeddedNotificationStore(database)
        self.archives = EmbeddedArchiveStore(database)
        self.replays = EmbeddedReplayStore(database)
        self.platforms = EmbeddedPlatformStore(database, Seal(b"k" * MASTER_KEY_BYTES))
        self.mobile_endpoints = EmbeddedMobileEndpointStore(database)
        self.sms = EmbeddedSmsStore(database)
        self.private = "10.0.0.1"
        self.unreachable = "nobody-listens.example.com"
        self.service = NotificationService(
            stores=self,
            queue=port or self.queue,
            clock=clock,
            events=self.events,
            url_checks=UrlChecks(self._refusal, self._is_unreachable),
            quotas=quotas,
            sms_sandbox=sms_sandbox,
        )
        self._table = operations(self.service)
        self._model = load_service("sns")

    async def _refusal(self, url: str) -> str | None:
        return f"{self.private} is private" if self.private in url else None

    async def _is_unreachable(self, url: str) -> bool:
        return self.unreachable in url

    async def __call__(self, action: str, **params: Any) -> dict[str, Any]:
        return await self.by(call(ACCOUNT), action, **params)

    async def by(self, caller: Call, action: str, **params: Any) -> dict[str, Any]:
        result = await self._table[action](caller, params)
        self._model.operations[action].render_xml(result, "r")  # fails if the result does not fit the model
        return result

    async def refusal(self, action: str, caller: Call | None = None, /, **params: Any) -> tuple[str, str]:
        """The code and text of the error that the call must raise. The service model must have the code."""
        with pytest.raises(RequestError) as refused:
            await self.by(caller or call(ACCOUNT), action, **params)
        assert find_fault("sns", refused.value.code) is not None
        return refused.value.code, refused.value.message

    async def pages(self, action: str, **params: Any) -> list[dict[str, Any]]:
        """All pages of a list."""
        pages = [await self(action, **params)]
        while pages[-1]["NextToken"]:
            pages.append(await self(action, **params, NextToken=pages[-1]["NextToken"]))
        return pages

    async def set(self, arn: str, name: str, text: str = "") -> None:
        """Set an attribute of a topic or a subscription."""
        action, members = setting(arn, name, text)
        await self(action, **members)

    async def refused_set(self, arn: str, name: str, text: str = "", caller: Call | None = None) -> tuple[str, str]:
        """The error of `set`, as `refusal` returns it."""
        action, members = setting(arn, name, text)
        return await self.refusal(action, caller, **members)

    async def refused_subscribe(self, topic: str, endpoint: str, **attributes: str) -> tuple[str, str]:
        """The error of a queue's Subscribe, as `refusal` returns it."""
        return await self.refusal("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=endpoint, Attributes=attributes)

    async def confirm(self, topic: str, token: str) -> str:
        """Confirm without a signature. Returns the subscription's ARN."""
        confirmed = await self.by(unsigned(), "ConfirmSubscription", TopicArn=topic, Token=token)
        return str(confirmed["SubscriptionArn"])

    async def topic(self, name: str = "t", **attributes: str) -> str:
        arn: str = (await self("CreateTopic", Name=name, Attributes=attributes))["TopicArn"]
        return arn

    async def queue_subscription(self, topic: str, name: str = "q", **attributes: str) -> str:
        return await self.subscribe(topic, "sqs", queue_arn(ACCOUNT, name), **attributes)

    async def subscribe(self, topic: str, protocol: str, endpoint: str, **attributes: str) -> str:
        result = await self(
            "Subscribe",
            TopicArn=topic,
            Protocol=protocol,
            Endpoint=endpoint,
            Attributes=attributes,
            ReturnSubscriptionArn=True,
        )
        arn: str = result["SubscriptionArn"]
        return arn

    async def pending(self, topic: str, url: str = "https://example.com/hook", **attributes: str) -> tuple[str, str]:
        """A pending subscription and its token."""
        arn = await self.subscribe(topic, url.partition(":")[0], url, **attributes)
        return arn, self.confirmation().token

    async def confirmed(self, topic: str, url: str = "https://example.com/hook", **attributes: str) -> tuple[str, str]:
        """A subscription confirmed without a signature, and its token."""
        arn, token = await self.pending(topic, url, **attributes)
        assert await self.confirm(topic, token) == arn
        return arn, token

    async def attributes(self, arn: str, owner: str = ACCOUNT) -> dict[str, str]:
        """A subscription's attributes, as its owner sees them."""
        result = await self.by(call(owner), "GetSubscriptionAttributes", SubscriptionArn=arn)
        described: dict[str, str] = result["Attributes"]
        return described

    async def listed(self, topic: str) -> list[str]:
        """The ARNs of a topic's subscriptions, as ListSubscriptionsByTopic shows them."""
        page = await self("ListSubscriptionsByTopic", TopicArn=topic)
        return [member["SubscriptionArn"] for member in page["Subscriptions"]]

    async def open_to_all(self, topic: str, *actions: str) -> None:
        statement = {"Effect": "Allow", "Principal": "*", "Action": list(actions), "Resource": topic}
        await self.set(topic, "Policy", json.dumps({"Statement": [statement]}))

    def confirmation(self) -> ConfirmationJob:
        """The only job enqueued since the last call: a confirmation."""
        (job,) = self.queue.take()
        assert isinstance(job, ConfirmationJob)
        return job

    def endpoint_job(self) -> EndpointJob:
        (job,) = self.queue.take()
        assert isinstance(job, EndpointJob)
        return job

    def publish_job(self) -> PublishJob:
        (job,) = self.queue.take()
        assert isinstance(job, PublishJob)
        return job


@asynccontextmanager
async def open_rig(directory: Path, clock: Clock, quotas: Quotas, *, sms_sandbox: bool = False) -> AsyncIterator[Rig]:
    database = Database(directory, clock)
    rig = Rig(database, clock, quotas, sms_sandbox=sms_sandbox)
    database.start(asyncio.get_running_loop())
    try:
        yield rig
    finally:
        await database.close()


def invalid(what: str) -> tuple[str, str]:
    """An InvalidParameter error as `Rig.refusal` returns it."""
    return "InvalidParameter", f"Invalid parameter: {what}"


def setting(arn: str, name: str, text: str = "") -> tuple[str, dict[str, str]]:
    """The call, and its members, that sets an attribute of the topic or the subscription."""
    kind = "Topic" if arn.count(":") == TOPIC_COLONS else "Subscription"
    return f"Set{kind}Attributes", {f"{kind}Arn": arn, "AttributeName": name, "AttributeValue": text}


def queue_arn(account: str, name: str = "q") -> str:
    return f"arn:aws:sqs:{REGION}:{account}:{name}"


def call(account: str, region: str = REGION, *, enforced: bool = True) -> Call:
    return _call(root_caller(account, f"AKIA{account}"), region, enforced=enforced)


def unsigned() -> Call:
    return _call(ANONYMOUS, "us-east-1", enforced=True)


def unsigned_without_auth() -> Call:
    """A call without credentials under --auth=off, as the front door makes it."""
    return _call(root_caller(ACCOUNT), "us-east-1", enforced=False)


def _call(caller: Any, region: str, *, enforced: bool) -> Call:
    return Call(
        caller=caller,
        region=region,
        request_id="r",
        base_url=BASE_URL,
        policies_enforced=enforced,
        trace_header="Root=1-2",
    )
