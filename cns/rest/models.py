"""Answers of the REST API, for its server and its clients. Names are camelCase on the wire; times are milliseconds
since the epoch."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_HOURS = "With `byHour`, on the engine pipes: the hours of 14 days in which it counted, the newest first."


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """An answer; a reader passes over members that it does not know."""


class Queue(Answer, frozen=True):
    """A queue's definition."""

    name: str
    account: str
    region: str
    arn: str
    url: str
    attributes: dict[str, str]
    tags: dict[str, str] = {}


class QueueList(Answer, frozen=True):
    queues: list[str]
    definitions: Annotated[list[Queue] | None, Meta(description="Of those that the caller may see, if asked for.")] = (
        None
    )
    next: Annotated[str | None, Meta(description="Give it as `after` to read the next page.")] = None


class Totals(Answer, frozen=True):
    """Messages since the queue was made or purged, as the engine last wrote them down. The rates roll over about a
    minute."""

    pushed: int
    popped: int
    depth: Annotated[int, Meta(description="Messages that were never popped.")]
    pushed_per_second: float
    popped_per_second: float
    counted_at: int


class HourTotals(Answer, frozen=True):
    hour: Annotated[int, Meta(description="When it begins.")]
    pushed: int
    popped: int
    depth: Annotated[int, Meta(description="Messages at its end that were never popped.")]


class Statistics(Answer, frozen=True):
    """Numbers of messages. They are approximate, as those of SQS."""

    visible: int
    in_flight: int
    delayed: int
    totals: Annotated[Totals | None, Meta(description="Only for queues on the engine pipes, which keeps them.")] = None
    hours: Annotated[
        list[HourTotals] | None,
        Meta(description=_HOURS),
    ] = None


class SentMessage(Answer, frozen=True):
    message_id: str
    md5_of_body: str
    sequence_number: str | None = None


class MessageAttribute(Answer, frozen=True):
    data_type: str
    string_value: str | None = None
    binary_value: Annotated[str | None, Meta(description="base64")] = None


class ReceivedMessage(Answer, frozen=True):
    message_id: str
    pop_receipt: str
    body: str
    delivery_count: int
    sent_at: int
    first_received_at: int
    attributes: dict[str, MessageAttribute] = {}
    system_attributes: dict[str, str] = {}


class BrowsedMessage(Answer, frozen=True):
    message_id: str
    body: str
    state: Annotated[str, Meta(extra_json_schema={"enum": ["visible", "inFlight", "blocked", "delayed"]})]
    delivery_count: int
    sent_at: int
    visible_at: int
    group_id: str | None = None
    attributes: dict[str, MessageAttribute] = {}
    dead_letter_source_arn: Annotated[
        str | None, Meta(description="The queue that a dead-letter move took it from.")
    ] = None


class BrowsedMessages(Answer, frozen=True):
    messages: list[BrowsedMessage]
    next: str | None = None


class Redrive(Answer, frozen=True, kw_only=True):
    status: str
    source_arn: str
    destination_arn: str | None = None
    handle: str | None = None
    moved: int
    to_move: int | None = None
    started_at: int | None = None
    failure: str | None = None


class RedriveList(Answer, frozen=True):
    redrives: list[Redrive]


class Topic(Answer, frozen=True):
    name: str
    arn: str
    attributes: dict[str, str]


class TopicList(Answer, frozen=True):
    topics: Annotated[list[str], Meta(description="ARNs")]
    next: str | None = None


class PublishedMessage(Answer, frozen=True):
    message_id: str
    sequence_number: str | None = None


class Subscription(Answer, frozen=True):
    arn: str
    protocol: str
    endpoint: str
    owner: str
    topic_arn: str


class SubscriptionList(Answer, frozen=True):
    subscriptions: list[Subscription]
    next: str | None = None


class SubscriptionArn(Answer, frozen=True):
    arn: str
    warnings: Annotated[list[str], Meta(description="Why messages will not arrive, or may be lost.")] = []


class SubscriptionAttributes(Answer, frozen=True):
    attributes: dict[str, str]


class PortalLink(Answer, frozen=True):
    """A link with which the owner of a subscription's endpoint opens the portal."""

    id: str
    created_at: int
    expires_at: Annotated[int, Meta(description="By the service's clock.")]
    made_by: Annotated[str, Meta(description="ARN of the account holder.")]


class MadePortalLink(PortalLink, frozen=True):
    url: Annotated[
        str, Meta(description="It is not shown again. Anyone with it can use the portal of this subscription.")
    ]


class PortalLinkList(Answer, frozen=True):
    links: Annotated[list[PortalLink], Meta(description="Those that have not ended, the oldest first.")]


class Permission(Answer, frozen=True):
    """A bearer token, and the same as the query string of a signed URL."""

    token: str
    expires_at: int
    query_string: str
    url: str


class Caller(Answer, frozen=True):
    """The caller that the service identifies by the credentials."""

    account: str
    arn: str
    region: str


class RemovedItems(Answer, frozen=True):
    """Counts of the items that one request deleted."""

    complete: bool
    users: int
    queues: int
    topics: int
    subscriptions: int
    applications: int
