"""Fixtures of the `explain` tests: real stores and queues in a directory, and the events that the service writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.notification import Attributes, Notification
from cns.queue_port.contract import NewJob
from cns.queue_port.inline import InlineQueuePort
from cns.topics.topic import Topic
from cns_backend.backend import Backend
from cns_backend.explain import collect
from cns_backend.explain.collect import Question, explain
from cns_backend.explain.gaps import EventDirectories
from cns_backend.explain.model import DeliveryHistory, Explanation
from cns_backend.store_host import StoreHost
from cns_common.configuration.settings import Settings
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDelivered,
    DeliveryFiltered,
    Event,
    NotificationDropped,
    PublishAccepted,
)
from cns_common.events.search import SearchResult, search_back_to_publish, search_segments
from cns_common.events.segment import SegmentLimits
from cns_common.events.writer import SegmentWriter
from tests.integration.sns.stores.cns_stores import subscription
from tests.integration.workers.embedded_context import no_queue

ACCOUNT = "111111111111"
TOPIC = Topic(id="0" * 32, account=ACCOUNT, region="us-east-1", name="t", created_ms=1)
ID = "0b6ad2b4-1111-4222-8333-444455556666"
LIMITS = SegmentLimits(segment_bytes_max=1 << 20, segment_age_s=3600, retention_s=3600, bytes_max=1 << 30)
NEW: Attributes = {"kind": ("String", "new")}


def notification(attributes: Attributes = NEW, **members: object) -> Notification:
    base = Notification(id=ID, topic_arn=TOPIC.arn, timestamp_ms=1_000, texts={"default": "m"}, attributes=attributes)
    return replace(base, **members)


@dataclass(frozen=True, slots=True)
class ExplainFixture:
    backend: Backend
    port: InlineQueuePort
    directory: Path

    async def subscribe(self, number: int, policy: str = "", scope: str = "", **members: object) -> str:
        """Store a subscription and return its ARN. Ids sort by `number`."""
        attributes = {name: text for name, text in (("FilterPolicy", policy), ("FilterPolicyScope", scope)) if text}
        whole: dict[str, Any] = {
            "id": f"{number:08d}-0000-4000-8000-000000000000",
            "protocol": "http",
            "endpoint": f"http://example.com/{number}",
            "attributes": attributes,
        }
        wanted = subscription(TOPIC, **(whole | members))
        assert await self.backend.subscriptions.create(wanted, None) == wanted
        return wanted.arn

    async def put(self, queue: str, job: jobs.Job, *, job_id: str = ID, group: str = "g", delay_ms: int = 0) -> None:
        dedup = job_id if queue.endswith(".fifo") else ""
        await self.port.enqueue([NewJob(queue, job_id, jobs.encode(job), group, delay_ms, dedup)])

    def write_events(self, *events: Event) -> None:
        writer = SegmentWriter(self.directory / "events", "test", self.backend.clock, LIMITS)
        for event in events:
            writer.emit(event)
        writer.close()

    async def explain(self, **question: object) -> Explanation:
        return await explain(self.backend, self.events(), Question(ID, **question))  # type: ignore[arg-type]

    def events(self, *, written: bool = True, shared: bool = False) -> EventDirectories:
        return EventDirectories((self.directory / "events",), written, shared, self.directory / "tables")


@asynccontextmanager
async def open_site(directory: Path) -> AsyncIterator[ExplainFixture]:
    host = StoreHost(Settings(data=directory))
    host.database.start(asyncio.get_running_loop())
    try:
        await host.backend.topics.create(TOPIC)
        yield ExplainFixture(
            host.backend, InlineQueuePort(host.backend.engine, host.backend.clock, no_queue), directory
        )
    finally:
        await host.database.close()


def accepted(n_jobs: int = 1, at_ms: int = 1_000) -> PublishAccepted:
    return PublishAccepted(
        at_ms=at_ms, message_id=ID, topic=TOPIC.arn, account=ACCOUNT, size_bytes=5, has_subject=False, jobs=n_jobs
    )


def attempted(arn: str, at_ms: int = 1_100, attempt: int = 1, cause: str = "status") -> DeliveryAttempted:
    return DeliveryAttempted(
        at_ms=at_ms,
        message_id=ID,
        message_type="Notification",
        topic=TOPIC.arn,
        subscription=arn,
        protocol="http",
        attempt=attempt,
        phase="first" if attempt == 1 else "backoff",
        outcome="failed" if cause else "delivered",
        cause=cause,
        status=500 if cause else 200,
        duration_ms=8,
    )


def delivered(arn: str, at_ms: int = 1_200) -> DeliveryDelivered:
    return DeliveryDelivered(
        at_ms=at_ms,
        message_id=ID,
        message_type="Notification",
        topic=TOPIC.arn,
        subscription=arn,
        protocol="http",
        attempt=1,
        since_publish_ms=at_ms - 1_000,
    )


def dropped(arn: str, cause: str, subscriptions: int = 1) -> NotificationDropped:
    return NotificationDropped(
        at_ms=1_300,
        message_id=ID,
        message_type="Notification",
        topic=TOPIC.arn,
        subscription=arn,
        attempt=0,
        cause=cause,
        subscriptions=subscriptions,
    )


def filtered(n: int, **keys: str) -> DeliveryFiltered:
    ids = tuple([f"{int(number[1:]):08d}-0000-4000-8000-000000000000" for number in keys])
    return DeliveryFiltered(
        at_ms=1_001,
        message_id=ID,
        topic=TOPIC.arn,
        filtered=n,
        subscription_ids=ids,
        filter_keys=tuple(keys.values()),
    )


def endpoint_job(*arns: str, inline: Notification | None = None) -> EndpointJob:
    return EndpointJob(ID, TOPIC.arn, arns, inline)


def only_history(explanation: Explanation) -> DeliveryHistory:
    (history,) = explanation.histories
    return history


def count_searches(
    fixture: ExplainFixture, monkeypatch: pytest.MonkeyPatch, late: tuple[Event, ...] = ()
) -> list[SearchResult]:
    """The results of the searches from now on. After the first one, the late events are written."""
    found: list[SearchResult] = []

    def counted(search: Callable[..., SearchResult], *words: Any) -> SearchResult:
        found.append(search(*words))
        if len(found) == 1:
            fixture.write_events(*late)
        return found[-1]

    for search in (search_segments, search_back_to_publish):
        monkeypatch.setattr(collect, search.__name__, partial(counted, search))
    monkeypatch.setattr(collect, "FLUSH_INTERVAL_S", 0.0)
    return found
