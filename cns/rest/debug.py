"""Answers of the debug views of queues. Times are milliseconds since the epoch."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from cns.rest.models import Answer


class StoredQueue(Answer, frozen=True):
    """A queue's record as it is stored: only what was set, without defaults."""

    id: str
    name: str
    account: str
    region: str
    engine: str
    created_at: int
    modified_at: int
    version: int
    purged_at: int | None
    attributes: dict[str, str]
    options: Annotated[dict[str, str], Meta(description="The engine's own attributes.")]
    tags: dict[str, str]


class StoredQueues(Answer, frozen=True):
    queues: list[StoredQueue]
    next: Annotated[str | None, Meta(description="Give it as `after` to read the next page.")] = None


class Pointers(Answer, frozen=True):
    """Numbers of buckets. The first message of a bucket has its number times `bucketSize`."""

    reader: Annotated[int, Meta(description="The bucket that consumers read.")]
    repair: Annotated[int, Meta(description="The first bucket that is not final.")]
    invisibility: Annotated[int, Meta(description="The bucket of the first hidden message that is not acknowledged.")]
    bucket_size: int


class Monoton(Answer, frozen=True):
    next: Annotated[int, Meta(description="The number that the next message gets.")]


class Tombstone(Answer, frozen=True):
    """`sealedAt` is null while messages are still written to the bucket."""

    bucket: int
    sealed_at: int | None


class StoredMessage(Answer, frozen=True):
    """A message's row. `acknowledged`, or `movedTo` another pointer by repair: the message is not here any more."""

    pointer: int
    message_id: str
    tag: str
    version: int
    acknowledged: bool
    delivery_count: int
    visible_at: int
    sent_at: int
    first_received_at: int | None
    moved_to: int | None
    body: Annotated[str | None, Meta(description="Of a single message, for the account's root only.")] = None


class Bucket(Answer, frozen=True):
    bucket: int
    sealed_at: int | None
    messages: list[StoredMessage]
