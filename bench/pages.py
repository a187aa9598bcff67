"""Measures how long pages take to answer with 10,000 queues, 1,000 topics and 100,000 subscriptions of one account.

    python -m bench.pages [--queues 10000] [--subscriptions 100000] [--rounds 20]

The data are written into the store before the service starts. Half of the subscriptions are those of one topic. The
times are those of a client with one connection: the median, and the slowest of all rounds. Some 4 MiB of events are
written too, as much as a page reads.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import httpx

from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_backend.backend import Backend
from cns_backend.store_host import StoreHost
from cns_common.configuration.settings import Settings
from cns_common.events.newest import RECENT_BYTES_MAX
from cns_common.events.schema import DeliveryAttempted, DeliveryDelivered, PublishAccepted
from cns_common.events.segment import SegmentLimits
from cns_common.events.writer import SegmentWriter
from cns_common.ids import hex_id
from cns_common.metrics.catalogue import EVENTS_WRITTEN
from cqs.queues.model import Queue
from tests.acceptance.running import Up, running
from tests.waiting import wait_until

Record = TypeVar("Record")
REGION = "us-east-1"
TOPICS = 1_000
LARGE = "topic-00000"
AT_ONCE = 500
EVENT_BYTES = 400
WRITTEN_S = 60.0
LIMITS = SegmentLimits(segment_bytes_max=16 << 20, segment_age_s=3600, retention_s=86_400, bytes_max=1 << 30)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.pages")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        with running(data) as service:
            keys = service.environment
            account = service.client("sts", region_name=REGION).get_caller_identity()["Account"]
        message = asyncio.run(_fill(data, account, options.queues, options.subscriptions))
        with running(data) as service:
            _measure(service, keys, message, options.rounds)


async def _fill(data: Path, account: str, queues: int, subscriptions: int) -> str:
    """Returns the id of a message that events are about."""
    host = StoreHost(Settings(data=data))
    host.database.start(asyncio.get_running_loop())
    backend = host.backend
    now_ms = backend.clock.now_ms()
    await _all([_queue(account, n, backend.default_engine, now_ms) for n in range(queues)], backend.queues.create)
    topics = [
        Topic(id=hex_id(), account=account, region=REGION, name=f"topic-{n:05}", created_ms=now_ms)
        for n in range(TOPICS)
    ]
    await _all(topics, backend.topics.create)
    made = [_subscription(topics[0 if n % 2 else n % TOPICS], n, account, now_ms) for n in range(subscriptions)]
    await _all(made, lambda one: backend.subscriptions.create(one, None))
    message = _write_events(data, backend, topics[0], made)
    await host.database.close()
    return message


async def _all(records: Sequence[Record], create: Callable[[Record], Awaitable[object]]) -> None:
    for start in range(0, len(records), AT_ONCE):
        await asyncio.gather(*[create(record) for record in records[start : start + AT_ONCE]])


def _queue(account: str, n: int, engine: str, now_ms: int) -> Queue:
    return Queue(
        id=hex_id(),
        account=account,
        region=REGION,
        name=f"queue-{n:05}",
        engine=engine,
        created_ms=now_ms,
        modified_ms=now_ms,
    )


def _subscription(topic: Topic, n: int, account: str, now_ms: int) -> Subscription:
    return Subscription(
        id=str(uuid.UUID(int=n)),
        topic_arn=topic.arn,
        topic_id=topic.id,
        owner=account,
        principal="",
        protocol="sqs",
        endpoint=f"arn:aws:sqs:{REGION}:{account}:target-{n:06}",
        state=SubscriptionState.CONFIRMED,
        created_ms=now_ms,
    )


def _write_events(data: Path, backend: Backend, topic: Topic, subscriptions: list[Subscription]) -> str:
    writer = SegmentWriter(data / "events", "bench", backend.clock, LIMITS)
    message = ""
    for n in range(2 * RECENT_BYTES_MAX // (3 * EVENT_BYTES)):
        at_ms, message, arn = backend.clock.now_ms(), str(uuid.uuid4()), subscriptions[n % len(subscriptions)].arn
        accepted = PublishAccepted(
            at_ms=at_ms,
            message_id=message,
            topic=topic.arn,
            account=topic.account,
            size_bytes=9,
            has_subject=False,
            jobs=1,
        )
        attempted = DeliveryAttempted(
            at_ms=at_ms,
            message_id=message,
            message_type="Notification",
            topic=topic.arn,
            subscription=arn,
            protocol="sqs",
            attempt=1,
            phase="first",
            outcome="delivered",
            cause="",
            status=200,
            duration_ms=3,
        )
        delivered = DeliveryDelivered(
            at_ms=at_ms,
            message_id=message,
            message_type="Notification",
            topic=topic.arn,
            subscription=arn,
            protocol="sqs",
            attempt=1,
            since_publish_ms=9,
        )
        for event in (accepted, attempted, delivered):
            writer.emit(event)
        if n % AT_ONCE == 0:  # the writer's buffer is bounded
            _wait_written(writer, 3 * (n + 1))
    writer.close()
    return message


def _wait_written(writer: SegmentWriter, n: int) -> None:
    wait_until(lambda: EVENTS_WRITTEN.sample(n) in writer.samples(), WRITTEN_S)


def _measure(service: Up, keys: dict[str, str], message: str, rounds: int) -> None:
    paths = (
        *("/ui/queues", "/ui/queues?prefix=queue-09", "/ui/queues/queue-05000", "/ui/topics", f"/ui/topics/{LARGE}"),
        *(
            "/ui/messages",
            "/ui/deliveries",
            "/ui/dead-letters",
            "/ui/endpoints",
            "/ui/service",
            f"/ui/messages/{message}",
        ),
    )
    print("| page | median, ms | slowest, ms | KiB |\n|---|---|---|---|")
    with httpx.Client(base_url=service.url, follow_redirects=True, timeout=120) as http:
        form = {"key_id": keys["AWS_ACCESS_KEY_ID"], "secret": keys["AWS_SECRET_ACCESS_KEY"], "region": REGION}
        http.post("/ui/sign-in", data=form).raise_for_status()
        for path in paths:
            took = []
            for _ in range(rounds):
                began = time.perf_counter()
                answer = http.get(path).raise_for_status()
                took.append((time.perf_counter() - began) * 1000)
            name = path.replace(message, "ID")
            print(
                f"| `{name}` | {statistics.median(took):.0f} | {max(took):.0f} | {len(answer.content) // 1024} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
