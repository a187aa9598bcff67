"""Queues, topics and subscriptions by calls of the SQS and SNS APIs: find, create, change, delete, and compare."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from cns.arns import check_topic_arn
from cns.filters.model import Scope
from cns.subscriptions import attributes as subscription_attributes
from cns.subscriptions.attributes import RAW, SCOPE
from cns.subscriptions.endpoint_syntax import (
    check_endpoint,
    check_pairing,
    check_protocol,
    has_masked_password,
    masked_endpoint,
)
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.tags import read_tags, with_tags
from cns.topics import attributes as topic_attributes
from cns.topics.topic import Topic
from cns_common.errors import UNREADABLE, RequestError
from cqs.queues import attributes as queue_attributes
from cqs.queues.model import Queue
from cqs.queues.names import check_queue_name, is_fifo
from cqs.queues.tags import merge_tags
from cqs.redrive.policy import check_redrive_sources, check_redrive_target, read_redrive_policy

Texts = Mapping[str, str]
DELETED_WAIT_S = 1.0
DELETED_WAITS_MAX = 70
"""The name of a deleted queue is free again after 60 s."""
_ABSENT = frozenset(
    {
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NotFound",
        "ResourceNotFound",
        "NotFoundException",
    }
)


class Calls(Protocol):
    """The APIs of one account in one region."""

    account: str
    region: str

    async def run(self, service: str, action: str, **params: Any) -> dict[str, Any]:
        """The result of an action. Raises RequestError for a refusal."""
        ...


@dataclass(slots=True)
class NoCalls:
    """Of an account that is not there yet, and has nothing."""

    account: str
    region: str

    async def run(self, service: str, action: str, **params: Any) -> dict[str, Any]:
        if action.startswith("List"):
            return {}
        raise RequestError("NotFound", f"there is no account {self.account}")


def only_account(known: Sequence[str]) -> str:
    """The account that has what a file gives no account for. Raises RequestError if there are several."""
    if len(known) != 1:
        text = f"there are {len(known)} accounts: the file must say under accounts which has what"
        raise RequestError("InvalidParameter", text)
    return known[0]


@dataclass(frozen=True, slots=True)
class Found:
    """A resource of the service."""

    attributes: Texts
    tags: Texts = field(default_factory=dict)
    changeable: bool = True


class _Kind:
    """A kind of resources of an account. A resource is known by its name; `check` raises RequestError."""

    kind: ClassVar[str]
    service: ClassVar[str] = "sns"

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._made: Any = {"id": "", "account": calls.account, "region": calls.region, "created_ms": 0}
        """The members of a record that do not matter here."""

    def listed_name(self, name: str) -> str:
        """The name as lists have it."""
        return name

    def arn(self, service: str, name: str) -> str:
        """The ARN of a name in the account; an ARN stays."""
        known = name.startswith("arn:")
        return name if known else f"arn:aws:{service}:{self.calls.region}:{self.calls.account}:{name}"

    async def _maybe(self, service: str, action: str, **params: Any) -> dict[str, Any] | None:
        try:
            return await self.calls.run(service, action, **params)
        except RequestError as error:
            if error.code in _ABSENT:
                return None
            raise

    async def _pages(self, service: str, action: str, member: str, **params: Any) -> AsyncIterator[Any]:
        while True:
            page = await self.calls.run(service, action, **params)
            for item in page.get(member) or ():
                yield item
            if not page.get("NextToken"):
                return
            params["NextToken"] = page["NextToken"]

    def stored(self, name: str, given: Texts, attribute: str) -> str:
        """The text that the service would store for one of the given attributes; '' for none. Raises RequestError."""
        raise NotImplementedError

    def differs(self, name: str, current: Texts, attribute: str, wanted: str) -> bool:
        """Whether an attribute is to be changed. Two texts of the same JSON are equal."""
        present = current.get(attribute, "")
        return self._differs(name, current, attribute, wanted) and (
            not present or not wanted or _canonical(present) != _canonical(wanted)
        )

    def _differs(self, name: str, current: Texts, attribute: str, wanted: str) -> bool:
        raise NotImplementedError

    def settings(self, name: str, attributes: Texts) -> dict[str, str]:
        """The attributes that a new resource of this name would not have by itself, and that can be set."""
        return {
            attribute: text
            for attribute, text in attributes.items()
            if self._can_set(name, attributes, attribute) and self.differs(name, {}, attribute, text)
        }

    def _can_set(self, name: str, attributes: Texts, attribute: str) -> bool:
        try:
            self.stored(name, attributes, attribute)
        except RequestError:
            return False
        return True


class Queues(_Kind):
    kind = "queue"
    service = "sqs"

    def _url(self, name: str) -> str:
        return f"http://cns/{self.calls.account}/{name}"

    async def names(self) -> list[str]:
        pages = self._pages("sqs", "ListQueues", "QueueUrls", MaxResults=1000)
        return sorted([url.rpartition("/")[2] async for url in pages])

    async def find(self, name: str) -> Found | None:
        url = self._url(name)
        found = await self._maybe("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
        tags = None if found is None else await self._maybe("sqs", "ListQueueTags", QueueUrl=url)
        return None if found is None or tags is None else Found(found["Attributes"], tags.get("Tags") or {})

    async def create(self, name: str, attributes: Texts, tags: Texts) -> None:
        """Waits until the name of a queue that was just deleted is free."""
        fifo = {"FifoQueue": "true"} if is_fifo(name) else {}
        given = {"QueueName": name, "Attributes": {**fifo, **attributes}, "tags": dict(tags)}
        for waits in range(DELETED_WAITS_MAX + 1):
            try:
                await self.calls.run("sqs", "CreateQueue", **given)
                return
            except RequestError as error:
                if waits == DELETED_WAITS_MAX or not error.code.endswith("QueueDeletedRecently"):
                    raise
                if not waits:
                    print(f"cns: queue {name}: {error.message}", file=sys.stderr, flush=True)
            await asyncio.sleep(DELETED_WAIT_S)

    async def change(self, name: str, attributes: Texts) -> None:
        await self.calls.run("sqs", "SetQueueAttributes", QueueUrl=self._url(name), Attributes=dict(attributes))

    async def retag(self, name: str, tags: Texts, gone: list[str]) -> None:
        if gone:
            await self.calls.run("sqs", "UntagQueue", QueueUrl=self._url(name), TagKeys=gone)
        if tags:
            await self.calls.run("sqs", "TagQueue", QueueUrl=self._url(name), Tags=dict(tags))

    async def delete(self, name: str) -> None:
        await self._maybe("sqs", "DeleteQueue", QueueUrl=self._url(name))

    def check(self, name: str, tags: Texts) -> None:
        check_queue_name(name, fifo=is_fifo(name))
        merge_tags(name, {}, tags)

    def stored(self, name: str, given: Texts, attribute: str) -> str:
        """Attributes beyond SQS's belong to the engine that the queue names: the service checks them."""
        try:
            text = queue_attributes.check_changes({attribute: given[attribute]}, fifo=is_fifo(name))[attribute]
        except RequestError as error:
            known = attribute in queue_attributes.READ_ONLY or error.code != "InvalidAttributeName"
            if known or queue_attributes.ENGINE not in given:
                raise
            return given[attribute]
        if attribute == "RedrivePolicy" and text:
            place = {"account": self.calls.account, "region": self.calls.region}
            check_redrive_target(text, read_redrive_policy(text), **place, fifo=is_fifo(name))
        if attribute == "RedriveAllowPolicy" and text:
            check_redrive_sources(text, region=self.calls.region)
        return text

    def _differs(self, name: str, current: Texts, attribute: str, wanted: str) -> bool:
        queue = Queue(**self._made, name=name, engine="", modified_ms=0, attributes=dict(current))
        return queue_attributes.first_difference(queue, {attribute: wanted}) is not None


class Topics(_Kind):
    kind = "topic"

    async def names(self) -> list[str]:
        return sorted([one["TopicArn"].rpartition(":")[2] async for one in self._pages("sns", "ListTopics", "Topics")])

    async def find(self, name: str) -> Found | None:
        arn = self.arn("sns", name)
        found = await self._maybe("sns", "GetTopicAttributes", TopicArn=arn)
        tags = None if found is None else await self._maybe("sns", "ListTagsForResource", ResourceArn=arn)
        if found is None or tags is None:
            return None
        return Found(found["Attributes"], {tag["Key"]: tag["Value"] for tag in tags.get("Tags") or ()})

    async def create(self, name: str, attributes: Texts, tags: Texts) -> None:
        given = {**_topic_type(name), **attributes}
        await self.calls.run("sns", "CreateTopic", Name=name, Attributes=given, Tags=_pairs(tags))

    async def change(self, name: str, attributes: Texts) -> None:
        for attribute, text in attributes.items():
            params = {"TopicArn": self.arn("sns", name), "AttributeName": attribute, "AttributeValue": text}
            await self.calls.run("sns", "SetTopicAttributes", **params)

    async def retag(self, name: str, tags: Texts, gone: list[str]) -> None:
        arn = self.arn("sns", name)
        if gone:
            await self.calls.run("sns", "UntagResource", ResourceArn=arn, TagKeys=gone)
        if tags:
            await self.calls.run("sns", "TagResource", ResourceArn=arn, Tags=_pairs(tags))

    async def delete(self, name: str) -> None:
        await self._maybe("sns", "DeleteTopic", TopicArn=self.arn("sns", name))

    def check(self, name: str, tags: Texts) -> None:
        topic_attributes.check_name(name, _topic_type(name))
        with_tags({}, read_tags(_pairs(tags)))

    def stored(self, name: str, given: Texts, attribute: str) -> str:
        return topic_attributes.check_new(name, {attribute: given[attribute]})[attribute]

    def _differs(self, name: str, current: Texts, attribute: str, wanted: str) -> bool:
        attributes = {**topic_attributes.initial_attributes(name), **current}
        topic = Topic(**self._made, name=name, attributes=attributes)
        return topic_attributes.differs(topic, {attribute: wanted})


def _topic_type(name: str) -> dict[str, str]:
    return {"FifoTopic": "true"} if is_fifo(name) else {}


def _pairs(tags: Texts) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


class Subscriptions(_Kind):
    """A name is `TOPIC PROTOCOL ENDPOINT`, with the topic's ARN."""

    kind = "subscription"

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self._arns: dict[str, str] | None = None

    def name(self, topic: str, protocol: str, endpoint: str) -> str:
        """Raises RequestError for an endpoint that SNS refuses."""
        arn, protocol = self.arn("sns", topic), check_protocol(protocol)
        check_topic_arn(arn, "TopicArn", self.calls.region)
        topic_name = arn.rpartition(":")[2]
        topic_attributes.check_name(topic_name, _topic_type(topic_name))
        endpoint = check_endpoint(protocol, self.arn("sqs", endpoint) if protocol == "sqs" else endpoint)
        check_pairing(protocol, endpoint, fifo_topic=is_fifo(arn))
        return f"{arn} {protocol} {endpoint}"

    async def _index(self) -> dict[str, str]:
        if self._arns is None:
            self._arns = {
                f"{one['TopicArn']} {one['Protocol']} {one['Endpoint']}": one["SubscriptionArn"]
                async for one in self._pages("sns", "ListSubscriptions", "Subscriptions")
            }
        return self._arns

    async def names(self) -> list[str]:
        return sorted(await self._index())

    def listed_name(self, name: str) -> str:
        topic, protocol, endpoint = name.split(" ", 2)
        return f"{topic} {protocol} {masked_endpoint(endpoint)}"

    async def _arn(self, name: str) -> str:
        return (await self._index()).get(self.listed_name(name), "")

    async def find(self, name: str) -> Found | None:
        """One that is not confirmed, or that its endpoint ended, has no ARN to change it by."""
        arn = await self._arn(name)
        if arn.startswith("arn:"):
            found = await self._maybe("sns", "GetSubscriptionAttributes", SubscriptionArn=arn)
            return None if found is None else Found(found["Attributes"])
        return Found({}, changeable=False) if arn else None

    async def create(self, name: str, attributes: Texts, tags: Texts) -> None:
        topic, protocol, endpoint = name.split(" ", 2)
        if has_masked_password(endpoint):
            raise RequestError("InvalidParameter", "the endpoint has no password: write it in place of the stars")
        params = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint, "Attributes": dict(attributes)}
        await self.calls.run("sns", "Subscribe", **params)

    async def change(self, name: str, attributes: Texts) -> None:
        """A policy is checked in the scope of the moment: a wider scope comes first, a narrower one last."""
        widens = attributes.get(SCOPE) == Scope.BODY
        for attribute, text in sorted(attributes.items(), key=lambda pair: (pair[0] == SCOPE) is not widens):
            params = {"SubscriptionArn": await self._arn(name), "AttributeName": attribute, "AttributeValue": text}
            await self.calls.run("sns", "SetSubscriptionAttributes", **params)

    async def retag(self, name: str, tags: Texts, gone: list[str]) -> None:
        """Subscriptions have no tags."""

    def check(self, name: str, tags: Texts) -> None:
        """`name` has checked it."""

    async def delete(self, name: str) -> None:
        await self._maybe("sns", "Unsubscribe", SubscriptionArn=await self._arn(name))

    def stored(self, name: str, given: Texts, attribute: str) -> str:
        others = {each: given[each] for each in (SCOPE, RAW) if each in given}
        wanted = {**others, attribute: given[attribute]}
        return subscription_attributes.check_new(self._record(name, {}), wanted)[attribute]

    def _differs(self, name: str, current: Texts, attribute: str, wanted: str) -> bool:
        return subscription_attributes.differs(self._record(name, current), {attribute: wanted})

    def _record(self, name: str, attributes: Texts) -> Subscription:
        topic, protocol, endpoint = name.split(" ", 2)
        return Subscription(
            id="",
            topic_arn=topic,
            topic_id="",
            owner=self.calls.account,
            principal="",
            protocol=protocol,
            endpoint=endpoint,
            state=SubscriptionState.CONFIRMED,
            created_ms=0,
            attributes=dict(attributes),
        )


Kind = Queues | Topics | Subscriptions
"""`find`, `create`, `change`, `retag` (set tags, and remove some) and `delete` a resource by its name; `names` are
those that the account has; `check` raises RequestError for a name or tags."""


def _canonical(text: str) -> str:
    """JSON without its layout and without the order of a policy's statements; other texts as they are."""
    try:
        value = json.loads(text)
    except UNREADABLE:
        return text
    if isinstance(value, dict) and isinstance(value.get("Statement"), list):
        value["Statement"].sort(key=lambda one: json.dumps(one, sort_keys=True))
    return json.dumps(value, sort_keys=True)
