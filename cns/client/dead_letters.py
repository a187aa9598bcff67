"""Dead letters: which queues have them, why, and back with them."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from cns.client.requests import ApiRequest, given
from cns.client.values import MessageAttribute, QueueNames


class DeadLetterDepth(msgspec.Struct, frozen=True, rename="camel"):
    """`oldest_sent_at`: when the oldest message was first sent; None without messages."""

    visible: int
    in_flight: int
    delayed: int
    oldest_sent_at: int | None
    oldest_age_seconds: int | None


class DeadLetterQueue(msgspec.Struct, frozen=True, rename="camel"):
    """A dead-letter queue, with the names of queues and the ARNs of subscriptions whose messages go there. `depth` is
    None if the queue does not exist, or the caller may not read it."""

    name: str
    arn: str
    queues: list[str]
    subscriptions: list[str]
    depth: DeadLetterDepth | None = None


class DeadLetterQueues(msgspec.Struct, frozen=True, rename="camel"):
    """A page: the same queue may be on later pages with further sources."""

    dead_letter_queues: list[DeadLetterQueue]
    next: str | None = None


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


class Redrive(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    source_arn: str
    moved: int
    destination_arn: str | None = None
    handle: str | None = None
    to_move: int | None = None
    started_at: int | None = None
    failure: str | None = None


class Redrives(msgspec.Struct, frozen=True, rename="camel"):
    redrives: list[Redrive]


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
