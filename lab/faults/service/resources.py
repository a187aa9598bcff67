"""The resources of a round: queues, topics, confirmed subscriptions; made once, and copied for each round."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lab.faults.accounting.failing_endpoints import (
    DOOMED,
    FAILING,
    HUNG,
    POLICIES,
    REFUSED,
    THROTTLED,
    FailingEndpoints,
)
from lab.faults.service.processes import SiteError, running
from lab.faults.service.wire import HOST, Wire
from lab.harness.signing import Credentials

WIDE_SUBSCRIPTIONS = 102
"""More than a hundred: a producer must fan out."""
FAILING_SUBSCRIPTIONS = 5
VISIBILITY_S = 30
REDRIVE_VISIBILITY_S = 1
REDRIVE_RECEIVES_MAX = 2
JUMP_S = VISIBILITY_S + 1
"""The time by which the clock is moved, so that every lease runs out."""
PART_POLICY = '{"part": ["yes"]}'
CONFIRM_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.05

_TOPIC = re.compile(rb"<TopicArn>([^<]+)</TopicArn>")
_SUBSCRIPTION = re.compile(rb"<SubscriptionArn>([^<]+)</SubscriptionArn>")
_CONFIRMED = re.compile(rb"<key>SubscriptionsConfirmed</key>\s*<value>(\d+)</value>")


class RoundResources(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP endpoints of `news` and `wide` are the receiver's; `news` has a queue, too, which gets envelopes.
    `ordered` is a FIFO topic with FIFO queues only."""

    data: Path  # of the embedded form
    port: int
    journal: Path  # the receiver's
    credentials: tuple[str, str]
    standard: str  # queue URLs
    fifo: str
    redrive: str  # FIFO, with a redrive policy to `dead_letter_queue`
    dead_letter_queue: str
    news_queue: str
    news: str  # topic ARNs
    wide: str
    ordered: str
    in_order: str  # queue URLs of the subscriptions of `ordered`: raw
    in_envelopes: str
    in_part: str  # with a filter policy
    subscribers: dict[str, int]  # HTTP subscriptions by topic
    failing_endpoints: FailingEndpoints | None = None  # only in the embedded form

    @property
    def ordered_queues(self) -> tuple[str, ...]:
        return (self.in_order, self.in_envelopes, self.in_part)

    @property
    def fifo_queues(self) -> tuple[str, ...]:
        return (self.fifo, self.redrive, self.dead_letter_queue, *self.ordered_queues)

    @property
    def envelope_queues(self) -> tuple[str, ...]:
        """Queues whose messages are notifications in envelopes."""
        return (
            self.news_queue,
            self.in_envelopes,
            *((self.failing_endpoints.undelivered,) if self.failing_endpoints else ()),
        )

    def wire(self) -> Wire:
        key_id, secret = self.credentials
        return Wire(self.port, Credentials(key_id=key_id, secret=secret))


async def set_up(directory: Path, port: int, receiver_port: int, journal: Path) -> RoundResources:
    """Start the service on new data, make the resources, and stop the service."""
    with running(port, directory / "service") as service:
        await service.ready({"api": 0, "worker": 0})
        resources = await create_resources(port, service.credentials(), receiver_port, journal, service.data)
        wire = resources.wire()
        failing_endpoints = await _Builder(wire, _endpoints(receiver_port)).failing_endpoints(receiver_port)
        wire.close()
    subscribers = resources.subscribers | {failing_endpoints.topic: FAILING_SUBSCRIPTIONS}
    return msgspec.structs.replace(resources, failing_endpoints=failing_endpoints, subscribers=subscribers)


async def create_resources(
    port: int, credentials: Credentials, receiver_port: int, journal: Path, data: Path | None = None
) -> RoundResources:
    """Make queues, topics and subscriptions."""
    wire = Wire(port, credentials)
    builder = _Builder(wire, _endpoints(receiver_port))
    news, wide = await builder.topic("news"), await builder.topic("wide")
    news_queue = await builder.queue("news")
    fifo, redrive, dead_letter_queue = await builder.fifo_queues()
    ordered, (in_order, in_envelopes, in_part) = await builder.fifo_topic()
    resources = RoundResources(
        data=data or Path(),
        port=port,
        journal=journal,
        credentials=(credentials.key_id, credentials.secret),
        standard=await builder.queue("standard"),
        fifo=fifo,
        redrive=redrive,
        dead_letter_queue=dead_letter_queue,
        news_queue=news_queue,
        news=news,
        wide=wide,
        ordered=ordered,
        in_order=in_order,
        in_envelopes=in_envelopes,
        in_part=in_part,
        subscribers={news: 2, wide: WIDE_SUBSCRIPTIONS},
    )
    await builder.subscribe(news, "sqs", await builder.open_to_topics(news_queue))
    await builder.subscribe(news, "http", builder.endpoint("news-raw"), RawMessageDelivery="true")
    await builder.subscribe(news, "http", builder.endpoint("news-signed"))
    for number in range(WIDE_SUBSCRIPTIONS):
        await builder.subscribe(wide, "http", builder.endpoint(f"wide-{number}"), RawMessageDelivery="true")
    await builder.confirmed(news, 3)
    await builder.confirmed(wide, WIDE_SUBSCRIPTIONS)
    wire.close()
    return resources


def _endpoints(receiver_port: int) -> str:
    return f"http://{HOST}:{receiver_port}/endpoint"


class _Builder:
    def __init__(self, wire: Wire, endpoints: str) -> None:
        self._wire = wire
        self._endpoints = endpoints

    def endpoint(self, name: str) -> str:
        return f"{self._endpoints}/{name}"

    async def queue(self, name: str, **attributes: str) -> str:
        attributes["VisibilityTimeout"] = str(VISIBILITY_S)
        answer = await self._wire.sqs("CreateQueue", {"QueueName": name, "Attributes": attributes})
        return msgspec.json.decode(answer, type=dict[str, str])["QueueUrl"]

    async def fifo_queues(self) -> tuple[str, str, str]:
        kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        dead_letter_queue = await self.queue("dead-letters.fifo", **kind)
        redrive_policy = {
            "deadLetterTargetArn": await self._arn(dead_letter_queue),
            "maxReceiveCount": REDRIVE_RECEIVES_MAX,
        }
        redrive = await self.queue("redrive.fifo", **kind, RedrivePolicy=_json(redrive_policy))
        return await self.queue("groups.fifo", **kind), redrive, dead_letter_queue

    async def fifo_topic(self) -> tuple[str, list[str]]:
        """The topic's ARN and the URLs of its queues."""
        topic = await self.topic("ordered.fifo", FifoTopic="true", ContentBasedDeduplication="true")
        raw = {"RawMessageDelivery": "true"}
        forms = {"in-order": raw, "in-envelopes": {}, "in-part": raw | {"FilterPolicy": PART_POLICY}}
        queues = [await self.queue(f"{name}.fifo", FifoQueue="true") for name in forms]
        for queue, attributes in zip(queues, forms.values(), strict=True):
            await self.subscribe(topic, "sqs", await self.open_to_topics(queue), **attributes)
        return topic, queues

    async def failing_endpoints(self, receiver_port: int) -> FailingEndpoints:
        topic, undelivered = await self.topic("failing-endpoints"), await self.queue("undelivered")
        redrive_policy = {"deadLetterTargetArn": await self.open_to_topics(undelivered)}
        attributes = {name: {"DeliveryPolicy": _json(policy)} for name, policy in POLICIES.items()}
        attributes[DOOMED]["RedrivePolicy"] = _json(redrive_policy)
        arns = {
            name: await self.subscribe(topic, "http", self.endpoint(name), **attributes.get(name, {}))
            for name in (REFUSED, HUNG, FAILING, DOOMED, THROTTLED)
        }
        await self.confirmed(topic, FAILING_SUBSCRIPTIONS)
        return FailingEndpoints(
            topic=topic,
            failing=arns[FAILING],
            doomed=arns[DOOMED],
            undelivered=undelivered,
            receiver_port=receiver_port,
        )

    async def _arn(self, url: str) -> str:
        members: dict[str, object] = {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
        answer = await self._wire.sqs("GetQueueAttributes", members)
        return msgspec.json.decode(answer, type=dict[str, dict[str, str]])["Attributes"]["QueueArn"]

    async def open_to_topics(self, url: str) -> str:
        """Let every topic send to the queue. Returns the queue's ARN."""
        arn = await self._arn(url)
        allowed = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
        policy = _json({"Statement": [{**allowed, "Resource": arn}]})
        await self._wire.sqs("SetQueueAttributes", {"QueueUrl": url, "Attributes": {"Policy": policy}})
        return arn

    async def topic(self, name: str, **attributes: str) -> str:
        found = _TOPIC.search(await self._wire.sns("CreateTopic", {"Name": name, **_entries(attributes)}))
        assert found is not None
        return found[1].decode()

    async def subscribe(self, topic: str, protocol: str, endpoint: str, **attributes: str) -> str:
        """Returns the subscription's ARN."""
        members = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint, **_entries(attributes)}
        found = _SUBSCRIPTION.search(await self._wire.sns("Subscribe", members | {"ReturnSubscriptionArn": "true"}))
        assert found is not None
        return found[1].decode()

    async def confirmed(self, topic: str, n: int) -> None:
        until_s = time.monotonic() + CONFIRM_TIMEOUT_S
        while time.monotonic() < until_s:
            found = _CONFIRMED.search(await self._wire.sns("GetTopicAttributes", {"TopicArn": topic}))
            if found is not None and int(found[1]) == n:
                return
            await asyncio.sleep(POLL_INTERVAL_S)
        raise SiteError(f"the subscriptions of {topic} are not confirmed")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _entries(attributes: Mapping[str, str]) -> dict[str, str]:
    """The Query protocol's members of a map."""
    members: dict[str, str] = {}
    for number, (name, value) in enumerate(attributes.items(), 1):
        members |= {f"Attributes.entry.{number}.key": name, f"Attributes.entry.{number}.value": value}
    return members
