"""The notification workloads: publishes to queues and to an HTTP endpoint, at full and at half load."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from time import perf_counter_ns
from urllib.parse import urlencode

import msgspec

from lab.harness.server import Server
from lab.harness.signing import Signer
from lab.load.pacing import NS_PER_S
from lab.load.queues import BODY_BYTES, Client, delete_batch_request, handles_in, receive_requests, turns
from lab.load.sink import STAMP, Sink
from lab.load.wire import Budget, Lane, Script, connect, run
from lab.measure.figures import Figures, Meter

ARRIVAL_TIMEOUT_S = 60.0
COUNT_PAUSE_S = 0.02
POLLERS = 4
SECONDS_MAX = 60.0

_TOPIC = re.compile(rb"<TopicArn>([^<]+)</TopicArn>")
_SUBSCRIPTION = re.compile(rb"<SubscriptionArn>([^<]+)</SubscriptionArn>")


class Publisher:
    """A topic on one server and the connections that publish to it."""

    def __init__(self, server: Server, lanes: list[Lane], client: Client) -> None:
        self.server = server
        self.lanes = lanes
        self.client = client
        self._signer = Signer(server.credentials, "sns", f"127.0.0.1:{server.port}")
        self._padding = client.body()[: BODY_BYTES - 30]
        self.topic = ""

    async def open_topic(self, name: str) -> None:
        answer = await self.client.lanes[0].ask(self._form("CreateTopic", Name=name))
        self.topic = _first(_TOPIC, answer)

    def request(self, began_ns: int = 0) -> bytes:
        """A publish whose message has its start time; by default now."""
        began = f"began={began_ns or perf_counter_ns()}"
        return self._form("Publish", TopicArn=self.topic, Message=f"{began} {self._padding}")

    def close(self) -> None:
        for lane in [*self.lanes, *self.client.lanes]:
            lane.close()

    async def subscribe_queues(self, names: Iterable[str], *, raw: bool) -> None:
        for name in names:
            await self.client.use_queue(name)
            attributes = await self.client.ask(
                "GetQueueAttributes", QueueUrl=self.client.url, AttributeNames=["QueueArn"]
            )
            arn = msgspec.convert(attributes["Attributes"], dict[str, str])["QueueArn"]
            policy = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
            document = msgspec.json.encode({"Statement": [{**policy, "Resource": arn}]}).decode()
            await self.client.ask("SetQueueAttributes", QueueUrl=self.client.url, Attributes={"Policy": document})
            await self._subscribe("sqs", arn, raw=raw)

    async def subscribe_sink(self, sink: Sink, *, raw: bool, times: int = 1) -> None:
        """Subscribe the sink as `times` endpoints, each of which gets every notification."""
        url = await sink.open()
        for number in range(times):
            sink.token = asyncio.get_running_loop().create_future()
            await self._subscribe("http", f"{url}{number or ''}", raw=raw)
            async with asyncio.timeout(ARRIVAL_TIMEOUT_S):
                token = await sink.token
            await self.client.lanes[0].ask(self._form("ConfirmSubscription", TopicArn=self.topic, Token=token))

    async def _subscribe(self, protocol: str, endpoint: str, *, raw: bool) -> None:
        members = {"TopicArn": self.topic, "Protocol": protocol, "Endpoint": endpoint, "ReturnSubscriptionArn": "true"}
        if raw:
            members |= {"Attributes.entry.1.key": "RawMessageDelivery", "Attributes.entry.1.value": "true"}
        _first(_SUBSCRIPTION, await self.client.lanes[0].ask(self._form("Subscribe", **members)))

    def _form(self, action: str, **members: str) -> bytes:
        return self._signer.form(urlencode({"Action": action, "Version": "2010-03-31", **members}).encode())


async def open_publisher(server: Server, connections: int, seed: int, topic: str) -> Publisher:
    client = Client(server, await connect(server.port, POLLERS), seed)
    publisher = Publisher(server, await connect(server.port, connections), client)
    await publisher.open_topic(topic)
    return publisher


# -- to queues --------------------------------------------------------------------------------------------------------


async def saturate_queues(publisher: Publisher, publishes: int, names: list[str]) -> Figures:
    """Publish at full load until the last message is in its queue."""
    wanted = publishes * len(names)
    times: list[int] = []
    meter = Meter(publisher.server)
    await _publish_all(publisher, publishes, times)
    async with asyncio.timeout(ARRIVAL_TIMEOUT_S):
        while await _count(publisher.client, names) < wanted:
            await asyncio.sleep(COUNT_PAUSE_S)
    return meter.read(f"publish → {len(names)} SQS", len(publisher.lanes), wanted, times)


async def pace_queue(publisher: Publisher, rate: float, seconds: float, name: str) -> Figures:
    """Publish at a rate; measures from the start of a publish to the receipt by a long poll."""
    await publisher.client.use_queue(name)
    client = publisher.client
    requests = receive_requests(client, 10, WaitTimeSeconds=20)
    times: list[int] = []

    def poll(lane: int) -> Script:
        for request in turns(requests, lane):
            answer = yield [], request
            now_ns = perf_counter_ns()
            times.extend(now_ns - int(began) for began in STAMP.findall(answer))
            if handles := handles_in(answer):
                yield [], delete_batch_request(client, handles)

    for n, lane in enumerate(client.lanes):
        lane.start(poll(n))
    meter = Meter(publisher.server)
    published = await _publish_paced(publisher, rate, seconds)
    async with asyncio.timeout(ARRIVAL_TIMEOUT_S):
        while len(times) < published:
            await asyncio.sleep(COUNT_PAUSE_S)
    return meter.read(f"publish → SQS at {rate:.0f}/s", len(publisher.lanes), published, times)


# -- to an HTTP endpoint ----------------------------------------------------------------------------------------------


async def saturate_sink(publisher: Publisher, publishes: int, sink: Sink) -> Figures:
    sink.reset()
    meter = Meter(publisher.server)
    await _publish_all(publisher, publishes, [])
    await sink.await_count(publishes, ARRIVAL_TIMEOUT_S)
    return meter.read("publish → HTTP", len(publisher.lanes), publishes, sink.times_ns)


async def pace_sink(publisher: Publisher, rate: float, seconds: float, sink: Sink) -> Figures:
    sink.reset()
    meter = Meter(publisher.server)
    published = await _publish_paced(publisher, rate, seconds)
    await sink.await_count(published, ARRIVAL_TIMEOUT_S)
    return meter.read(f"publish → HTTP at {rate:.0f}/s", len(publisher.lanes), published, sink.times_ns)


# -- publishing --------------------------------------------------------------------------------------------------------


async def _publish_all(publisher: Publisher, publishes: int, times: list[int]) -> None:
    budget = Budget(publishes, SECONDS_MAX)

    def script() -> Script:
        while budget.take():
            yield times, publisher.request()

    await run(publisher.lanes, [script() for _ in publisher.lanes])


async def _publish_paced(publisher: Publisher, rate: float, seconds: float) -> int:
    """Returns the number of publishes. The time of a publish starts when it is due, even if its connection still waits
    for an earlier answer: otherwise a stall would count once per connection, and not for every delayed publish."""
    per_lane = max(int(rate * seconds / len(publisher.lanes)), 1)
    start_ns = perf_counter_ns()

    async def publish(n: int, lane: Lane) -> None:
        for turn in range(per_lane):
            due_ns = start_ns + int((turn * len(publisher.lanes) + n) / rate * NS_PER_S)
            left_ns = due_ns - perf_counter_ns()
            if left_ns > 0:
                await asyncio.sleep(left_ns / NS_PER_S)
            await lane.ask(publisher.request(0 if left_ns > 0 else due_ns))

    await asyncio.gather(*[publish(n, lane) for n, lane in enumerate(publisher.lanes)])
    return per_lane * len(publisher.lanes)


async def _count(client: Client, names: list[str]) -> int:
    """Messages in the queues, in flight or not."""
    total = 0
    for name in names:
        await client.use_queue(name)
        answer = await client.ask("GetQueueAttributes", QueueUrl=client.url, AttributeNames=["All"])
        counts = msgspec.convert(answer["Attributes"], dict[str, str])
        total += int(counts["ApproximateNumberOfMessages"]) + int(counts["ApproximateNumberOfMessagesNotVisible"])
    return total


def _first(pattern: re.Pattern[bytes], answer: bytes) -> str:
    found = pattern.search(answer)
    if found is None:
        raise ValueError(f"no {pattern.pattern!r} in {answer[:500]!r}")
    return found[1].decode()
