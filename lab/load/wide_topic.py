"""A topic with many subscriptions, each with its own queue: subscribing, API calls and fan-out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from time import perf_counter

import msgspec

from lab.bench.sections.depth import Times
from lab.load.polls import BYTES_PER_MIB
from lab.load.queues import Client
from lab.load.topics import QUEUE, Attributes, Topic, all_of, make_queues, subscription_in
from lab.load.wire import LoadError, Script
from lab.measure.metrics import metric_total

NAME = "wide"
EDGE_SHARE = 20
"""The first and the last 1/20 of the subscriptions are timed separately."""
SAMPLED = 50
POLL_INTERVAL_S = 0.1
ARRIVAL_S_MAX = 600.0


class FanOut(msgspec.Struct, frozen=True, kw_only=True):
    """One publish to all subscriptions."""

    subscriptions: int
    seconds: float  # until all have it
    before_mib: float
    peak_mib: float
    written_mib: float


class WideTopic:
    def __init__(self, client: Client, subscriptions: int) -> None:
        self.client = client
        self.subscriptions = subscriptions
        self.topic = Topic(client)
        self._numbers = count(subscriptions)
        self._listed: list[str] = []

    async def fill(self) -> list[float]:
        """Make all subscriptions. Returns calls per second of the first and of the last `1 / EDGE_SHARE`."""
        n = self.subscriptions
        edge = max(n // EDGE_SHARE, 1)
        await self.topic.open(NAME)
        await make_queues(self.topic, range(n))
        parts = [range(edge), range(edge, n - edge), range(n - edge, n)]
        per_s = [await self._subscribe(numbers) for numbers in parts]
        tokens = await self.topic.tokens()
        self._listed = [tokens[0], tokens[len(tokens) // 2], tokens[-1]]
        return [per_s[0], per_s[-1]]

    async def _subscribe(self, numbers: range) -> float:
        return await all_of(self.client, (self.topic.subscribe(number, {}) for number in numbers))

    def cycle(self, times: Times) -> Script:
        """Lists, then the life of one more subscription: subscribe, change, read, unsubscribe."""
        topic, number = self.topic, next(self._numbers)
        for name, token in zip(("first", "middle", "last"), self._listed, strict=True):
            yield times[f"list the topic's, {name} page"], topic.page(token)
        yield times["list the account's, middle page"], topic.call("ListSubscriptions", NextToken=self._listed[1])
        yield times["get topic attributes"], topic.call("GetTopicAttributes", TopicArn=topic.arn)
        arn = subscription_in((yield times["subscribe"], topic.subscribe(number, {})))
        if subscription_in((yield times["subscribe again"], topic.subscribe(number, {}))) != arn:
            raise LoadError("an endpoint has two subscriptions")
        raw = {"AttributeName": "RawMessageDelivery", "AttributeValue": "true"}
        yield times["set attributes"], topic.call("SetSubscriptionAttributes", SubscriptionArn=arn, **raw)
        yield times["get attributes"], topic.call("GetSubscriptionAttributes", SubscriptionArn=arn)
        yield times["unsubscribe"], topic.call("Unsubscribe", SubscriptionArn=arn)

    async def fan_out(self) -> FanOut:
        """Publish once and wait for all deliveries; nothing else is published meanwhile."""
        server = self.client.server
        await self.client.connect_anew()  # the connections were idle for long
        before, delivered, written = server.resident_bytes(), await self._delivered(), server.written_bytes()
        peak, began_s = before, perf_counter()
        await self.client.lanes[0].ask(self.topic.publish(self.client.body()))
        async with asyncio.timeout(ARRIVAL_S_MAX):
            while await self._delivered() < delivered + self.subscriptions:
                peak = max(peak, server.resident_bytes())
                await asyncio.sleep(POLL_INTERVAL_S)
        return FanOut(
            subscriptions=self.subscriptions,
            seconds=round(perf_counter() - began_s, 1),
            before_mib=round(before / BYTES_PER_MIB, 1),
            peak_mib=round(peak / BYTES_PER_MIB, 1),
            written_mib=round((server.written_bytes() - written) / BYTES_PER_MIB, 1),
        )

    async def _delivered(self) -> int:
        server = self.client.server
        if await metric_total(server, "notifications_dropped_total"):
            raise LoadError("a notification was dropped")
        return await metric_total(server, "deliveries_total")

    async def check_queues(self, publishes: int) -> None:
        """Check in a sample of the queues that each publish was delivered exactly once."""
        await self.client.connect_anew()
        some = self.client.random.sample(range(self.subscriptions), min(SAMPLED, self.subscriptions))
        for number in some:
            url = (await self.client.ask("GetQueueUrl", QueueName=QUEUE.format(number)))["QueueUrl"]
            answer = await self.client.ask("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
            messages = answer.get("Messages", [])
            if not isinstance(messages, list) or len(messages) != publishes:
                raise LoadError(f"{publishes} publishes, and in {url} are {messages!r:.300}")


def publish_cycle(topic: Topic, body: str, attributes: Attributes | None = None) -> Callable[[Times], Script]:
    """A script that publishes once."""

    def cycle(times: Times) -> Script:
        yield times["publish"], topic.publish(body, attributes)

    return cycle
