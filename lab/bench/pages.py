"""Measures how long pages take to answer with 10,000 queues, 1,000,000 messages, 1,000 topics and 100,000 subscriptions
of one account.

    python -m lab.bench.pages [--queues 10000] [--messages 1000000] [--subscriptions 100000] [--events-mib 256]

The data are written into the store before the service starts. Half of the messages are in one queue, half of the
subscriptions are those of one topic, and each tenth queue has a dead-letter queue of its own. The times are those of a
client with one connection: the median, and the slowest of all rounds; the CPU, mean of all, is that of the API process,
whatever else the machine does. Events of an hour are written, too. A recent message is one of the newest 4 MiB of them,
which most pages read; the oldest is the first of all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
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
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.durations import HOUR_MS
from cns_common.events.newest import RECENT_BYTES_MAX
from cns_common.events.schema import DeliveryAttempted, DeliveryDelivered, PublishAccepted
from cns_common.events.segment import SegmentLimits
from cns_common.events.writer import SegmentWriter
from cns_common.ids import hex_id
from cns_common.metrics.catalogue import EVENTS_WRITTEN
from cqs.engines.contract import Entry, QueueRef
from cqs.queues.model import Body, Queue, encode_body
from lab.harness.running import Up, running
from lab.harness.usage import cpu_s
from lab.harness.waiting import wait_until

Record = TypeVar("Record")
REGION = "us-east-1"
TOPICS = 1_000
LARGE = "topic-00000"
AT_ONCE = 500
EVENT_BYTES = 400
EVENTS_EACH = 3
"""Events of one message."""
MESSAGE_BYTES = 100
IDLE_S = 20.0
RETENTION_MS = 4 * 86_400_000
WRITTEN_S = 60.0
LIMITS = SegmentLimits(segment_bytes_max=16 << 20, segment_age_s=3600, retention_s=86_400, bytes_max=1 << 30)


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab.bench.pages")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--events-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        with running(data) as service:
            keys = service.environment
            account = service.client("sts", region_name=REGION).get_caller_identity()["Account"]
        events = options.events_mib * 1024 * 1024 // EVENT_BYTES
        filled = _fill(data, account, options.queues, options.messages, options.subscriptions, events)
        recent, oldest = asyncio.run(filled)
        with running(data) as service:
            _measure(service, keys, {recent: "RECENT", oldest: "OLDEST"}, options.rounds)


async def _fill(
    data: Path, account: str, n_queues: int, messages: int, subscriptions: int, events: int
) -> tuple[str, str]:
    """Returns the ids of two messages that events are about: a recent one, and the oldest."""
    host = StoreHost(Settings(data=data))
    host.database.start(asyncio.get_running_loop())
    backend = host.backend
    now_ms = backend.clock.now_ms()
    queues = [_queue(account, n, backend.default_engine, now_ms) for n in range(n_queues)]
    await _all(queues, backend.queues.create)
    await _fill_queues(backend, queues, messages)
    topics = [
        Topic(id=hex_id(), account=account, region=REGION, name=f"topic-{n:05}", created_ms=now_ms)
        for n in range(TOPICS)
    ]
    await _all(topics, backend.topics.create)
    made = [_subscription(topics[0 if n % 2 else n % TOPICS], n, account, now_ms) for n in range(subscriptions)]
    await _all(made, lambda one: backend.subscriptions.create(one, None))
    written = _write_events(data, backend, topics[0], made, events)
    await host.database.close()
    return written[-RECENT_BYTES_MAX // EVENT_BYTES // EVENTS_EACH // 2], written[0]


async def _all(records: Sequence[Record], create: Callable[[Record], Awaitable[object]]) -> None:
    for start in range(0, len(records), AT_ONCE):
        await asyncio.gather(*[create(record) for record in records[start : start + AT_ONCE]])


async def _fill_queues(backend: Backend, queues: Sequence[Queue], messages: int) -> None:
    each = messages // 2 // len(queues)
    for n, queue in enumerate(queues):
        q = QueueRef(queue.id, fifo=False, retention_ms=RETENTION_MS)
        left = each + (messages // 2 if n == len(queues) // 2 else 0)
        while left > 0:
            now_ms = backend.clock.now_ms()
            entries = [_entry(queue.account, now_ms) for _ in range(min(left, AT_ONCE))]
            await backend.engines[queue.engine].send(q, entries, now_ms)
            left -= len(entries)


def _entry(sender: str, now_ms: int) -> Entry:
    body = Body(text="m" * MESSAGE_BYTES, md5="0" * 32, sender=sender, sent_at_ms=now_ms)
    return Entry(str(uuid.uuid4()), encode_body(body), now_ms, now_ms)


def _queue(account: str, n: int, engine: str, now_ms: int) -> Queue:
    target = f"arn:aws:sqs:{REGION}:{account}:queue-{n + 1:05}"
    redrive = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 3})
    return Queue(
        id=hex_id(),
        account=account,
        region=REGION,
        name=f"queue-{n:05}",
        engine=engine,
        created_ms=now_ms,
        modified_ms=now_ms,
        attributes={"RedrivePolicy": redrive} if n % 10 == 0 else {},
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


def _write_events(
    data: Path, backend: Backend, topic: Topic, subscriptions: list[Subscription], events: int
) -> list[str]:
    """Returns the ids of the messages."""
    now_ns = [(backend.clock.now_ms() - HOUR_MS) * 1_000_000]
    clock = Clock(wall_ns=lambda: now_ns[0], monotonic_ns=lambda: now_ns[0])
    writer = SegmentWriter(data / "events", "bench", clock, LIMITS)
    messages = [str(uuid.uuid4()) for _ in range(events // EVENTS_EACH)]
    for n, message in enumerate(messages):
        at_ms, arn = now_ns[0] // 1_000_000, subscriptions[n % len(subscriptions)].arn
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
        now_ns[0] += HOUR_MS * 1_000_000 // len(messages)
        if n % AT_ONCE == 0:  # the writer's buffer is bounded
            _wait_written(writer, EVENTS_EACH * (n + 1))
    writer.close()
    return messages


def _wait_written(writer: SegmentWriter, n: int) -> None:
    wait_until(lambda: EVENTS_WRITTEN.sample(n) in writer.samples(), WRITTEN_S)


def _measure(service: Up, keys: dict[str, str], messages: dict[str, str], rounds: int) -> None:
    """`messages` maps ids to how the table names them."""
    paths = (
        *("/ui/queues", "/ui/queues?prefix=queue-09", "/ui/queues/queue-05000", "/ui/topics", f"/ui/topics/{LARGE}"),
        *(
            "/ui/messages",
            "/ui/deliveries",
            "/ui/dead-letters",
            "/ui/endpoints",
            "/ui/service",
            *(f"/ui/messages/{message}" for message in messages),
            f"/ui/topics/{LARGE}/subscriptions/{uuid.UUID(int=0)}",
        ),
    )
    api = service.pids()["api"]
    idle_before = _idle_share(api)
    print("| page | median, ms | slowest, ms | CPU, ms | KiB |\n|---|---|---|---|---|")
    with httpx.Client(base_url=service.url, follow_redirects=True, timeout=120) as http:
        form = {"key_id": keys["AWS_ACCESS_KEY_ID"], "secret": keys["AWS_SECRET_ACCESS_KEY"], "region": REGION}
        http.post("/ui/sign-in", data=form).raise_for_status()
        for path in paths:
            took = []
            used_s = cpu_s(api)
            for _ in range(rounds):
                began = time.perf_counter()
                answer = http.get(path).raise_for_status()
                took.append((time.perf_counter() - began) * 1000)
            used_ms = (cpu_s(api) - used_s) * 1000 / rounds
            *folders, last = path.split("/")
            name = "/".join([*folders, messages.get(last, last)])
            print(
                f"| `{name}` | {statistics.median(took):.0f} | {max(took):.0f} | {used_ms:.0f} |"
                f" {len(answer.content) // 1024} |",
                flush=True,
            )
    print(f"CPU of the idle API process: {idle_before:.2%} before pages were opened, {_idle_share(api):.2%} after them")


def _idle_share(pid: int) -> float:
    used_s = cpu_s(pid)
    time.sleep(IDLE_S)  # the span in which CPU time is measured
    return (cpu_s(pid) - used_s) / IDLE_S


if __name__ == "__main__":
    main()
