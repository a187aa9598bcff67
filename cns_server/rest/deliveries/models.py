"""The bodies about deliveries and filters. Times are milliseconds since the epoch, durations are milliseconds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cns_server.rest.models import BrowsedMessage, MessageAttribute, QueueText, Wire


class FilterTest(Wire):
    policy: str | dict[str, Any] = Field(description="The filter policy, as JSON or as the text that SNS takes.")
    scope: Literal["MessageAttributes", "MessageBody"] = "MessageAttributes"
    message: QueueText = ""
    attributes: dict[str, MessageAttribute] = Field(default={})


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
