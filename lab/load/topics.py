"""Signed calls on a topic and its SQS subscriptions, made by many connections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from urllib.parse import urlencode

import msgspec

from lab.harness.signing import Signer
from lab.load.queues import Client
from lab.load.wire import LoadError, Script, run

QUEUE = "subscriber-{:06}"
_TOPIC = re.compile(rb"<TopicArn>([^<]+)</TopicArn>")
_SUBSCRIPTION = re.compile(rb"<SubscriptionArn>([^<]+)</SubscriptionArn>")
_TOKEN = re.compile(rb"<NextToken>([^<]+)</NextToken>")


Attributes = Mapping[str, tuple[str, str]]
"""Message attributes: name → (type, text)."""


class Topic:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.arn = ""
        self._signer = Signer(client.server.credentials, "sns", f"127.0.0.1:{client.server.port}")

    async def open(self, name: str) -> None:
        self.arn = first(_TOPIC, await self.client.lanes[0].ask(self.call("CreateTopic", Name=name)))

    def call(self, action: str, **members: str) -> bytes:
        return self._signer.form(urlencode({"Action": action, "Version": "2010-03-31", **members}).encode())

    def endpoint(self, number: int) -> str:
        region, account = self.arn.split(":")[3:5]
        return f"arn:aws:sqs:{region}:{account}:{QUEUE.format(number)}"

    def subscribe(self, number: int, attributes: Mapping[str, str]) -> bytes:
        given = entries("Attributes", ({"key": name, "value": text} for name, text in attributes.items()))
        return self.call("Subscribe", TopicArn=self.arn, Protocol="sqs", Endpoint=self.endpoint(number), **given)

    def publish(self, message: str, attributes: Attributes | None = None) -> bytes:
        given = entries(
            "MessageAttributes",
            (
                {"Name": name, "Value.DataType": data_type, "Value.StringValue": text}
                for name, (data_type, text) in (attributes or {}).items()
            ),
        )
        return self.call("Publish", TopicArn=self.arn, Message=message, **given)

    def page(self, token: str) -> bytes:
        """List a page of the topic's subscriptions; token '' is the first page."""
        return self.call("ListSubscriptionsByTopic", TopicArn=self.arn, NextToken=token)

    async def tokens(self) -> list[str]:
        """The tokens of all pages in order."""
        found = [""]

        def script() -> Script:
            while token := _TOKEN.search((yield [], self.page(found[-1]))):
                found.append(token[1].decode())

        await self.client.lanes[0].start(script())
        return found


def entries(name: str, given: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The members of a map in the Query protocol."""
    return {
        f"{name}.entry.{number}.{part}": text for number, entry in enumerate(given, 1) for part, text in entry.items()
    }


def subscription_in(answer: bytes) -> str:
    return first(_SUBSCRIPTION, answer)


def first(pattern: re.Pattern[bytes], answer: bytes) -> str:
    found = pattern.search(answer)
    if found is None:
        raise LoadError(f"no {pattern.pattern!r} in {answer[:500]!r}")
    return found[1].decode()


# -- by all connections -----------------------------------------------------------------------------------------------


async def make_queues(topic: Topic, numbers: Iterable[int]) -> None:
    """Make queues whose policies let every topic send."""

    def request(number: int) -> bytes:
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": topic.endpoint(number),
        }
        policy = msgspec.json.encode({"Version": "2012-10-17", "Statement": [statement]}).decode()
        members = {"QueueName": QUEUE.format(number), "Attributes": {"Policy": policy}}
        return topic.client.signer.call("CreateQueue", msgspec.json.encode(members))

    await all_of(topic.client, map(request, numbers))


async def all_of(client: Client, requests: Iterable[bytes]) -> float:
    """Send all requests over all connections. Returns requests per second."""
    left, done = iter(requests), 0

    def script() -> Script:
        nonlocal done
        for request in left:
            yield [], request
            done += 1

    began_ns = perf_counter_ns()
    await run(client.lanes, [script() for _ in client.lanes])
    return done / (perf_counter_ns() - began_ns) * 1e9
