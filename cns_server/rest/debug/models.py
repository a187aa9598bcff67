"""The bodies of the debug views. Times are milliseconds since the epoch."""

from __future__ import annotations

from pydantic import Field

from cns_server.rest.models import Wire


class StoredQueue(Wire):
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
    options: dict[str, str] = Field(description="The engine's own attributes.")
    tags: dict[str, str]


class StoredQueues(Wire):
    queues: list[StoredQueue]
    next: str | None = Field(default=None, description="Give it as `after` to read the next page.")


class Pointers(Wire):
    """Numbers of buckets. The first message of a bucket has its number times `bucketSize`."""

    reader: int = Field(description="The bucket that consumers read.")
    repair: int = Field(description="The first bucket that is not final.")
    invisibility: int = Field(description="The bucket of the first hidden message that is not acknowledged.")
    bucket_size: int


class Monoton(Wire):
    next: int = Field(description="The number that the next message gets.")


class Tombstone(Wire):
    """`sealedAt` is null while messages are still written to the bucket."""

    bucket: int
    sealed_at: int | None


class StoredMessage(Wire):
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
    body: str | None = Field(default=None, description="Of a single message, for the account's root only.")


class Bucket(Wire):
    bucket: int
    sealed_at: int | None
    messages: list[StoredMessage]
