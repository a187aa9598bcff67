"""Message locations and their text forms: cache members, receipt handles and bucket names."""

from __future__ import annotations

import re
from typing import NamedTuple

GENERATION_DIGITS = 6
START_DIGITS = 12
NODE_DIGITS = 8
NUMBER_DIGITS = 4
BUCKET_LENGTH = GENERATION_DIGITS + START_DIGITS + NODE_DIGITS + NUMBER_DIGITS
SEQ_DIGITS = 12
COUNTER_BITS = 20
"""The `seq` of a location is the time since its bucket began, in ms, followed by this many bits of a counter."""

SHARD_MARK = "#"

_HANDLE = re.compile(rb"([0-9a-f]{16})\.([0-9]{1,18})\.([0-9a-f]{30})([0-9a-f]{12,16})\Z")
"""A number of more than 12 digits is of a FIFO message that came from an embedded store."""


class MessageLocation(NamedTuple):
    bucket: str
    seq: int

    @property
    def member(self) -> str:
        return f"{self.bucket}{self.seq:0{SEQ_DIGITS}x}"  # members sort in the order of the sends

    @property
    def arrived_ms(self) -> int:
        return self.sequence >> COUNTER_BITS

    @property
    def sequence(self) -> int:
        """A number that rises from message to message of one sender, across buckets."""
        return (start_of(self.bucket) << COUNTER_BITS) + self.seq


class QueueShard(NamedTuple):
    """One of the `of` parts of a queue's cache. It has the messages of some of the queue's buckets."""

    queue_id: str
    number: int = 0
    of: int = 1

    @property
    def name(self) -> str:
        return self.queue_id if self.of == 1 else f"{self.queue_id}{SHARD_MARK}{self.number}"

    def has(self, bucket: str) -> bool:
        return self.of == 1 or number_of(bucket) % self.of == self.number


ANY_LEASE = -1
"""As a key's `lease`: treat the delivery as the newest, whatever was delivered since."""


class DeliveryKey(NamedTuple):
    """One delivery. `lease` counts the deliveries within one `epoch` of the cache."""

    epoch: str
    lease: int
    location: MessageLocation

    @property
    def any_lease(self) -> bool:
        return self.lease == ANY_LEASE


def parse_location(member: str) -> MessageLocation:
    return MessageLocation(member[:BUCKET_LENGTH], int(member[BUCKET_LENGTH:], 16))


def make_handle(key: DeliveryKey) -> bytes:
    return f"{key.epoch}.{key.lease}.{key.location.member}".encode()


def parse_handle(handle: bytes, *, older_handles: bool = False) -> DeliveryKey | None:
    """None if it is not a handle of this engine. With `older_handles` its delivery counts as the newest."""
    found = _HANDLE.match(handle)
    if found is None:
        return None
    epoch, lease, bucket, seq = found.groups()
    return DeliveryKey(
        epoch.decode(), ANY_LEASE if older_handles else int(lease), MessageLocation(bucket.decode(), int(seq, 16))
    )


def bucket_name(generation: int, start_ms: int, node: str, number: int) -> str:
    """`number` distinguishes the buckets that a process opens in one ms."""
    wrapped = number % 16**NUMBER_DIGITS
    return f"{generation:0{GENERATION_DIGITS}x}{start_ms:0{START_DIGITS}x}{node}{wrapped:0{NUMBER_DIGITS}x}"


def generation_prefix(generation: int) -> str:
    """Sorts before every bucket of the generation and after all earlier ones."""
    return f"{generation:0{GENERATION_DIGITS}x}"


def generation_of(bucket: str) -> int:
    return int(bucket[:GENERATION_DIGITS], 16)


def start_of(bucket: str) -> int:
    return int(bucket[GENERATION_DIGITS : GENERATION_DIGITS + START_DIGITS], 16)


def writer_of(bucket: str) -> str:
    """The process that writes to the bucket."""
    return bucket[GENERATION_DIGITS + START_DIGITS :][:NODE_DIGITS]


def number_of(bucket: str) -> int:
    """The writer's number of the bucket. It decides in which shard of the queue's cache the messages are."""
    return int(bucket[-NUMBER_DIGITS:], 16)


def queue_of(name: str) -> str:
    """The queue of a shard's name."""
    return name.partition(SHARD_MARK)[0]
