"""Signed calls on a topic and its subscriptions, and the workloads of publishes at full load and at a rate."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from urllib.parse import urlencode

import msgspec

from lab.harness.server import Server
from lab.harness.signing import Signer
from lab.load.endpoints import Sink
from lab.load.pacing import Schedule, planned_ns
from lab.load.queues import BODY_BYTES, Client, open_client
from lab.load.wire import Budget, LoadError, Script, run
from lab.load.workloads import SECONDS_MAX
from lab.measure.figures import Figures, Meter

ARRIVAL_TIMEOUT_S = 60.0
COUNT_PAUSE_S = 0.02
RAW = {"RawMessageDelivery": "true"}
_TOPIC = re.compile(rb"<TopicArn>([^<]+)</TopicArn>")


class Topic:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.arn = ""
        self._signer = Signer(client.server.credentials, "sns", f"127.0.0.1:{client.server.port}")
        self._padding = client.body()[: BODY_BYTES - 30]

    async def open(self, name: str) -> None:
        self.arn = first(_TOPIC, await self.client.lanes[0].ask(self.call("CreateTopic", Name=name)))

    def call(self, action: str, **members: str) -> bytes:
        return self._signer.form(urlencode({"Action": action, "Version": "2010-03-31", **members}).encode())

    def publish(self, message: str) -> bytes:
        return self.call("Publish", TopicArn=self.arn, Message=message)

    def stamped(self, began_ns: int = 0) -> bytes:
        """A publish of 1 KiB whose message has its start time; by default now."""
        return self.publish(f"began={began_ns or perf_counter_ns()} {self._padding}")

    def queue_arn(self, name: str) -> str:
        """Return the ARN of a queue in the topic's region and account."""
        return ":".join(["arn:aws:sqs", *self.arn.split(":")[3:5], name])

    def subscribe(self, protocol: str, endpoint: str, attributes: Mapping[str, str], topic: str = "") -> bytes:
        """By default to this topic."""
        given = {
            f"Attributes.entry.{number}.{part}": text
            for number, entry in enumerate(attributes.items(), 1)
            for part, text in zip(("key", "value"), entry, strict=True)
        }
        return self.call("Subscribe", TopicArn=topic or self.arn, Protocol=protocol, Endpoint=endpoint, **given)

    def confirm(self, token: str, topic: str = "") -> bytes:
        return self.call("ConfirmSubscription", TopicArn=topic or self.arn, Token=token)

    async def make_queues(self, names: Iterable[str]) -> None:
        """Make queues to which every topic may send."""

        def request(name: str) -> bytes:
            statement = {
                "Effect": "Allow",
                "Principal": {"Service": "sns.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": self.queue_arn(name),
            }
            policy = msgspec.json.encode({"Version": "2012-10-17", "Statement": [statement]}).decode()
            members = {"QueueName": name, "Attributes": {"Policy": policy}}
            return self.client.signer.call("CreateQueue", msgspec.json.encode(members))

        await self.client.run(map(request, names))

    async def subscribe_queues(self, names: list[str], *, raw: bool = True) -> None:
        """Make queues and subscribe them."""
        await self.make_queues(names)
        attributes = RAW if raw else {}
        await self.client.run(self.subscribe("sqs", self.queue_arn(name), attributes) for name in names)

    async def subscribe_sink(self, sink: Sink, *, raw: bool, times: int = 1) -> None:
        """Subscribe the sink as `times` endpoints, each of which gets every notification."""
        url = await sink.open()
        for number in range(times):
            sink.token = asyncio.get_running_loop().create_future()
            await self.client.lanes[0].ask(self.subscribe("http", f"{url}{number or ''}", RAW if raw else {}))
            async with asyncio.timeout(ARRIVAL_TIMEOUT_S):
                token = await sink.token
            await self.client.lanes[0].ask(self.confirm(token))


async def open_topic(server: Server, connections: int, seed: int, name: str) -> Topic:
    topic = Topic(await open_client(server, connections, seed))
    await topic.open(name)
    return topic


def first(pattern: re.Pattern[bytes], answer: bytes) -> str:
    found = pattern.search(answer)
    if found is None:
        raise LoadError(f"no {pattern.pattern!r} in {answer[:500]!r}")
    return found[1].decode()


# -- workloads --------------------------------------------------------------------------------------------------------


async def saturate_queues(topic: Topic, publishes: int, names: list[str]) -> Figures:
    """Publish at full load until the last message is in its queue."""
    wanted = publishes * len(names)
    times: list[int] = []
    meter = Meter(topic.client.server)
    await _publish_all(topic, publishes, times)
    async with asyncio.timeout(ARRIVAL_TIMEOUT_S):
        while await _count(topic.client, names) < wanted:
            await asyncio.sleep(COUNT_PAUSE_S)
    return meter.read(f"publish → {len(names)} SQS", len(topic.client.lanes), wanted, times)


async def saturate_sink(topic: Topic, publishes: int, sink: Sink) -> Figures:
    sink.reset()
    meter = Meter(topic.client.server)
    await _publish_all(topic, publishes, [])
    await sink.await_count(publishes, ARRIVAL_TIMEOUT_S)
    return meter.read("publish → HTTP", len(topic.client.lanes), publishes, sink.times_ns)


async def pace_sink(topic: Topic, rate: float, seconds: float, sink: Sink) -> Figures:
    """Publish at a rate. The time of a publish that waits for a connection includes the wait."""
    sink.reset()
    schedule = Schedule(planned_ns(rate, seconds))
    meter = Meter(topic.client.server)
    await schedule.run(topic.client.lanes, lambda n: topic.stamped(schedule.begun_ns(n)), lambda *_: None)
    await sink.await_count(len(schedule), ARRIVAL_TIMEOUT_S)
    return meter.read(f"publish → HTTP at {rate:.0f}/s", len(topic.client.lanes), len(schedule), sink.times_ns)


async def _publish_all(topic: Topic, publishes: int, times: list[int]) -> None:
    budget = Budget(publishes, SECONDS_MAX)

    def script() -> Script:
        while budget.take():
            yield times, topic.stamped()

    await run(topic.client.lanes, [script() for _ in topic.client.lanes])


async def _count(client: Client, names: list[str]) -> int:
    """Messages in the queues, in flight or not."""
    total = 0
    for name in names:
        await client.use_queue(name)
        counts = await client.attributes()
        total += int(counts["ApproximateNumberOfMessages"]) + int(counts["ApproximateNumberOfMessagesNotVisible"])
    return total
