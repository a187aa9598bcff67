"""Views of queues beyond the contract, which some engines have. An engine has a view if it has the view's members."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from cqs.engines.contract import Engine, QueueRef


class QueueStatistics(NamedTuple):
    """Sums since the queue was created or purged, and rates that roll over about a minute."""

    at_ms: int = 0
    pushed: int = 0
    popped: int = 0
    pushed_per_s: float = 0.0
    popped_per_s: float = 0.0

    @property
    def depth(self) -> int:
        """Messages that were never popped."""
        return self.pushed - self.popped


class HourStatistics(NamedTuple):
    """The counts of an hour. What happened in an hour without counts is in the next hour with counts."""

    at_ms: int
    """Its start, UTC."""
    pushed: int
    popped: int
    depth: int
    """Messages at its end that were never popped."""


@runtime_checkable
class StatisticsView(Protocol):
    """An engine that keeps statistics."""

    async def statistics(self, q: QueueRef) -> QueueStatistics | None:
        """The statistics that were written down last; None if none were yet, or the queue was dropped."""
        ...

    async def statistics_by_hour(self, q: QueueRef) -> list[HourStatistics]:
        """The hours of the last days since the queue was created or purged, the newest first."""
        ...


class RawPointers(msgspec.Struct, frozen=True):
    """Each is the number of a bucket; the first monoton of that bucket is the number times `bucket_size`."""

    reader: int
    repair: int
    invisibility: int
    bucket_size: int


class RawMessage(msgspec.Struct, frozen=True):
    """A row without its body. `acked`, or `moved_to` another monoton by repair: the message is not here any more."""

    monoton: int
    id: str
    tag: str
    version: int
    acked: bool
    deliveries: int
    visible_at_ms: int
    born_at_ms: int
    first_at_ms: int
    moved_to: int | None


class RawBucket(msgspec.Struct, frozen=True):
    number: int
    sealed_at_ms: int | None
    messages: tuple[RawMessage, ...]


class BucketView(Protocol):
    """The stored buckets of a queue whose messages are numbered."""

    async def monoton(self, q: QueueRef) -> int:
        """The next message number."""
        ...

    async def pointers(self, q: QueueRef) -> RawPointers: ...

    async def current_bucket(self, q: QueueRef, *, only_unacked: bool = False) -> RawBucket:
        """The bucket that consumers read."""
        ...

    async def bucket(self, q: QueueRef, number: int, *, only_unacked: bool = False) -> RawBucket: ...

    async def sealed_at_ms(self, q: QueueRef, number: int) -> int | None: ...

    async def message(self, q: QueueRef, monoton: int) -> RawMessage | None: ...

    async def body(self, q: QueueRef, monoton: int) -> bytes | None: ...


@runtime_checkable
class _HasBuckets(Protocol):
    @property
    def raw(self) -> BucketView: ...


def statistics_view(engine: Engine) -> StatisticsView | None:
    return engine if isinstance(engine, StatisticsView) else None


def bucket_view(engine: Engine) -> BucketView | None:
    return engine.raw if isinstance(engine, _HasBuckets) else None
