"""Answers about deliveries, filters and dead-letter queues. Times are milliseconds since the epoch, durations are
milliseconds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from cns.rest.models import Answer, BrowsedMessage


class Delivery(Answer, frozen=True):
    """An attempt, or an outcome after which none follows."""

    at: int
    event: Annotated[str, Meta(extra_json_schema={"enum": ["attempted", "delivered", "deadLettered", "dropped"]})]
    message_id: str
    message_type: str
    subscription_arn: Annotated[str | None, Meta(description="Null: several of the topic.")]
    protocol: str
    endpoint: Annotated[str, Meta(description="Its host or ARN, without secrets.")]
    attempt: int
    outcome: Annotated[str, Meta(extra_json_schema={"enum": ["delivered", "failed"]})]
    cause: Annotated[str | None, Meta(description="Of a failure: status, timeout, connection, …")] = None
    status: Annotated[int | None, Meta(description="HTTP")] = None
    reason: Annotated[str | None, Meta(description="The endpoint's answer in words.")] = None
    duration_ms: int | None = None
    since_publish_ms: int | None = None
    dead_letter_queue: str | None = None
    replayed: bool = False


class Deliveries(Answer, frozen=True):
    deliveries: Annotated[list[Delivery], Meta(description="The newest first.")]
    complete: Annotated[bool, Meta(description="Whether all events that are kept were read: there are no older ones.")]
    every_machine: Annotated[
        bool, Meta(description="False in a cluster: only events of the machine that answers are read.")
    ]


class Failures(Answer, frozen=True):
    """The failures of one cause among the newest ones."""

    cause: str
    event: Annotated[str, Meta(extra_json_schema={"enum": ["attempted", "deadLettered", "dropped"]})]
    subscription_arn: str | None
    count: int
    last_at: int
    last_status: int | None
    last_reason: str | None


class FailureList(Answer, frozen=True):
    failures: Annotated[list[Failures], Meta(description="The most frequent first.")]
    read: Annotated[int, Meta(description="Failures that were counted.")]
    complete: bool
    every_machine: bool


class FilterVerdict(Answer, frozen=True):
    matches: bool
    failed_key: Annotated[str | None, Meta(description="The first key of the policy that is not met.")] = None
    reason: str | None = None


class DeadLetter(BrowsedMessage, frozen=True):
    """A message of a dead-letter queue."""

    source_arn: Annotated[str | None, Meta(description="The queue or subscription that it came from, if known.")] = None
    cause: Annotated[str | None, Meta(description="spent:receives, spent:status, permanent:dns, … if known.")] = None
    notification_id: str | None = None
    topic_arn: str | None = None
    dead_lettered_at: int | None = None


class DeadLetters(Answer, frozen=True):
    messages: list[DeadLetter]
    next: Annotated[str | None, Meta(description="Give it as `after` to read the next page.")] = None
    complete: Annotated[bool, Meta(description="Whether all events that are kept were read for the causes.")] = True
    every_machine: Annotated[bool, Meta(description="False in a cluster: the causes are of this machine's events.")] = (
        True
    )


class DeadLetterDepth(Answer, frozen=True):
    visible: int
    in_flight: int
    delayed: int
    oldest_sent_at: Annotated[
        int | None, Meta(description="When the oldest message was first sent. Null: there is none.")
    ]
    oldest_age_seconds: int | None


class DeadLetterQueue(Answer, frozen=True):
    """A dead-letter queue, with those of the queues and subscriptions that were read whose messages go there."""

    name: str
    arn: str
    queues: Annotated[list[str], Meta(description="Names.")]
    subscriptions: Annotated[list[str], Meta(description="ARNs of confirmed subscriptions.")]
    depth: Annotated[DeadLetterDepth | None, Meta(description="Null: it does not exist, or its policy denies it.")] = (
        None
    )


class DeadLetterQueues(Answer, frozen=True):
    dead_letter_queues: list[DeadLetterQueue]
    next: Annotated[str | None, Meta(description="Give it as `after` to read further queues and subscriptions.")] = None
