"""Dead letters: which queues have them, why, and back with them."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from cns.client.requests import ApiRequest, given
from cns.client.values import MessageAttribute, QueueNames
from cns.rest.deliveries import DeadLetterDepth, DeadLetterQueue, DeadLetterQueues
from cns.rest.models import Redrive, RedriveList

__all__ = [
    "DeadLetter",
    "DeadLetterDepth",
    "DeadLetterQueue",
    "DeadLetterQueues",
    "DeadLetterRequests",
    "DeadLetters",
    "Redrive",
    "Redrives",
]

Redrives = RedriveList


class DeadLetter(msgspec.Struct, frozen=True, rename="camel"):
    """A message of a dead-letter queue. `source_arn` is the queue or subscription that it came from, `cause` says why;
    both are None if they are not known."""

    message_id: str
    body: str
    state: str
    delivery_count: int
    sent_at: int
    visible_at: int
    group_id: str | None = None
    attributes: dict[str, MessageAttribute] = {}
    source_arn: str | None = None
    cause: str | None = None
    notification_id: str | None = None
    topic_arn: str | None = None
    dead_lettered_at: int | None = None


class DeadLetters(msgspec.Struct, frozen=True, rename="camel"):
    """`complete` and `every_machine`: whether all events were read that tell the causes."""

    messages: list[DeadLetter]
    complete: bool
    every_machine: bool
    next: str | None = None


class DeadLetterRequests:
    def __init__(self, account: str) -> None:
        self._account = f"/accounts/{account}"

    def _queue(self, queue: str, rest: str) -> str:
        return f"{self._account}/queues/{quote(queue, safe='')}{rest}"

    def queues(self, after: str) -> ApiRequest[DeadLetterQueues]:
        return ApiRequest("GET", f"{self._account}/deadLetterQueues", DeadLetterQueues, given(after=after))

    def letters(self, queue: str, after: str, limit: int) -> ApiRequest[DeadLetters]:
        return ApiRequest("GET", self._queue(queue, "/deadLetters"), DeadLetters, given(after=after, limit=limit))

    def sources(self, queue: str) -> ApiRequest[QueueNames]:
        return ApiRequest("GET", self._queue(queue, "/deadLetterSources"), QueueNames)

    def redrives(self, queue: str) -> ApiRequest[Redrives]:
        return ApiRequest("GET", self._queue(queue, "/redrives"), Redrives)

    def redrive(self, queue: str, destination_arn: str, messages_per_second: int | None) -> ApiRequest[Redrive]:
        body = given(destinationArn=destination_arn, messagesPerSecond=messages_per_second)
        return ApiRequest("POST", self._queue(queue, "/redrives"), Redrive, None, body)

    def cancel_redrive(self, queue: str, handle: str) -> ApiRequest[Redrive]:
        return ApiRequest("DELETE", self._queue(queue, f"/redrives/{quote(handle, safe='')}"), Redrive)
