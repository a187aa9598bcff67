"""The bodies about deliveries and filters. Times are milliseconds since the epoch, durations are milliseconds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cns_server.rest.models import BrowsedMessage, MessageAttribute, QueueText, Wire


class Delivery(Wire):
    """An attempt, or an outcome after which none follows."""

    at: int
    event: Literal["attempted", "delivered", "deadLettered", "dropped"]
    message_id: str
    message_type: str
    subscription_arn: str | None = Field(description="Null: several of the topic.")
    protocol: str
    endpoint: str = Field(description="Its host or ARN, without secrets.")
    attempt: int
    outcome: Literal["delivered", "failed"]
    cause: str | None = Field(default=None, description="Of a failure: status, timeout, connection, …")
    status: int | None = Field(default=None, description="HTTP")
    reason: str | None = Field(default=None, description="The endpoint's answer in words.")
    duration_ms: int | None = None
    since_publish_ms: int | None = None
    dead_letter_queue: str | None = None
    replayed: bool = False


class Deliveries(Wire):
    deliveries: list[Delivery] = Field(description="The newest first.")
    complete: bool = Field(description="Whether all events that are kept were read: there are no older ones.")
    every_machine: bool = Field(description="False in a cluster: only events of the machine that answers are read.")


class Failures(Wire):
    """The failures of one cause among the newest ones."""

    cause: str
    event: Literal["attempted", "deadLettered", "dropped"]
    subscription_arn: str | None
    count: int
    last_at: int
    last_status: int | None
    last_reason: str | None


class FailureList(Wire):
    failures: list[Failures] = Field(description="The most frequent first.")
    read: int = Field(description="Failures that were counted.")
    complete: bool
    every_machine: bool


class FilterTest(Wire):
    policy: str | dict[str, Any] = Field(description="The filter policy, as JSON or as the text that SNS takes.")
    scope: Literal["MessageAttributes", "MessageBody"] = "MessageAttributes"
    message: QueueText = ""
    attributes: dict[str, MessageAttribute] = Field(default={})


class FilterVerdict(Wire):
    matches: bool
    failed_key: str | None = Field(default=None, description="The first key of the policy that is not met.")
    reason: str | None = None


class DeadLetterDepth(Wire):
    visible: int
    in_flight: int
    delayed: int
    oldest_sent_at: int | None = Field(description="When the oldest message was first sent. Null: there is none.")
    oldest_age_seconds: int | None


class DeadLetterQueue(Wire):
    """A dead-letter queue, with those of the queues and subscriptions that were read whose messages go there."""

    name: str
    arn: str
    queues: list[str] = Field(description="Names.")
    subscriptions: list[str] = Field(description="ARNs of confirmed subscriptions.")
    depth: DeadLetterDepth | None = Field(default=None, description="Null: it does not exist, or its policy denies it.")


class DeadLetterQueues(Wire):
    dead_letter_queues: list[DeadLetterQueue]
    next: str | None = Field(default=None, description="Give it as `after` to read further queues and subscriptions.")


class DeadLetter(BrowsedMessage):
    """A message of a dead-letter queue."""

    source_arn: str | None = Field(default=None, description="The queue or subscription that it came from, if known.")
    cause: str | None = Field(default=None, description="spent:receives, spent:status, permanent:dns, … if known.")
    notification_id: str | None = None
    topic_arn: str | None = None
    dead_lettered_at: int | None = None


class DeadLetters(Wire):
    messages: list[DeadLetter]
    next: str | None = Field(default=None, description="Give it as `after` to read the next page.")
    complete: bool = Field(default=True, description="Whether all events that are kept were read for the causes.")
    every_machine: bool = Field(
        default=True, description="False in a cluster: the causes are of this machine's events."
    )
