"""The contract of the engine's cache: it knows when each message is visible and which delivery is the newest, but no
bodies.

It may be lost at any time. An *epoch* is one lifetime of the cache's knowledge of one queue: it begins empty and is
filled from the rows. During the fill, messages in the cache can be received; messages that are not in it may still
exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cns_common.ids import hex_id
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, QueueShard
from cqs.engines.contract import Outcome

EPOCH_DIGITS = 16
TRUST_DIGITS = 8
FILLED = -1
FILLED_BY_ANOTHER = -2


MaybeOutcome = Outcome | None
"""For a delivery key, whether it names its message's newest delivery. None if the cache does not know: ask the rows."""


def cache_epoch(trust: int) -> str:
    """A name for a new epoch of one queue, under the number of the processes' epoch (`View`)."""
    return f"{trust:0{TRUST_DIGITS}x}{hex_id()[: EPOCH_DIGITS - TRUST_DIGITS]}"


def delivered_later(taken: str, epoch: str) -> bool:
    """Whether the delivery was made in another epoch than `epoch`, and not under an earlier epoch of the processes."""
    return taken != epoch and taken[:TRUST_DIGITS] >= epoch[:TRUST_DIGITS]


class CacheUnavailable(Exception):
    """The cache did not answer: the call may or may not have taken effect."""


class CachedMessage(NamedTuple):
    """A message as the cache stores it."""

    location: MessageLocation
    visible_at_ms: int
    deliveries: int = 0
    first_at_ms: int = 0
    tenant: str = ""
    """The fairness group; '' for none, or if it is unknown and the cache may have the message already."""


class MessageLease(NamedTuple):
    key: DeliveryKey
    deliveries: int
    first_at_ms: int
    spent: bool


class LeaseRequest(NamedTuple):
    now_ms: int
    want: int
    visible_at_ms: int
    max_receives: int
    require_filled: bool = True
    """During a fill, return nothing instead of fewer messages than wanted: the caller asks again after the fill."""


class LeaseResult(NamedTuple):
    leases: tuple[MessageLease, ...] = ()
    next_due_ms: int | None = None
    limit_reached: bool = False
    filling: bool = False
    dropped: bool = False


def merged(taken: Sequence[LeaseResult]) -> LeaseResult:
    """Messages leased from several shards of one queue."""
    due_ms = [one.next_due_ms for one in taken if one.next_due_ms is not None]
    return LeaseResult(
        tuple([lease for one in taken for lease in one.leases]),
        min(due_ms, default=None),
        any(one.limit_reached for one in taken),
        any(one.filling for one in taken),
        any(one.dropped for one in taken),
    )


class CacheCounts(NamedTuple):
    visible: int
    in_flight: int
    delayed: int


class Cache(Protocol):
    """`add`, `lease`, `counts` and `page` return None if the cache knows nothing of the queue: an epoch must be begun.
    Each method may raise CacheUnavailable."""

    async def add(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        """Add sent messages and wake waiters. Returns the queue's current generation, or DROPPED."""
        ...

    async def undo_delete(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> None:
        """Return messages to the cache whose rows, after `begin_delete`, may not have been deleted."""
        ...

    async def lease(self, shard: QueueShard, request: LeaseRequest) -> LeaseResult | None: ...

    async def undo_lease(self, shard: QueueShard, leases: Sequence[MessageLease], now_ms: int) -> None:
        """Take back the leases of an answer that no receiver got: the messages are visible, and the deliveries do not
        count."""
        ...

    async def begin_delete(self, shard: QueueShard, keys: Sequence[DeliveryKey], now_ms: int) -> list[MaybeOutcome]:
        """Remove messages from the cache before their rows are deleted. If the cache lost the visibility of a delivery,
        the key of that delivery still deletes, even if the message was delivered again meanwhile."""
        ...

    async def check(self, shard: QueueShard, key: DeliveryKey) -> MaybeOutcome:
        """Whether the key names its message's newest delivery. Changes nothing."""
        ...

    async def set_visible_at(
        self, shard: QueueShard, key: DeliveryKey, visible_at_ms: int, now_ms: int
    ) -> MaybeOutcome:
        """Like `check`; if DONE, also set the time at which the message becomes visible."""
        ...

    async def postpone(self, shard: QueueShard, items: Sequence[CachedMessage]) -> None:
        """Hide messages that were leased although another process had hidden them for longer, as their rows say."""
        ...

    async def keep_hidden(self, shard: QueueShard, items: Sequence[CachedMessage]) -> None:
        """Hide messages that were leased while the cache was unavailable for at least as long as given."""
        ...

    async def forget(self, shard: QueueShard, locations: Sequence[MessageLocation]) -> None:
        """Remove messages that have no rows."""
        ...

    async def counts(self, shard: QueueShard, now_ms: int, *, require_filled: bool) -> CacheCounts | None:
        """None during a fill, if `require_filled`."""
        ...

    async def page(
        self, shard: QueueShard, after: tuple[int, str], n: int, *, require_filled: bool
    ) -> list[CachedMessage] | None:
        """Up to `n` messages, soonest due first, after (due, member). None during a fill, if `require_filled`."""
        ...

    async def begin_epoch(self, shard: QueueShard, generation: int, filler: str) -> int:
        """Begin an epoch unless one exists. Returns the generation that `filler` must fill it with, FILLED, or
        FILLED_BY_ANOTHER while another filler is alive."""
        ...

    async def fill_page(self, shard: QueueShard, filler: str, items: Sequence[CachedMessage]) -> bool:
        """Add a page of the queue's messages. Returns False if another filler has taken over: stop."""
        ...

    async def end_fill(self, shard: QueueShard, filler: str) -> None: ...

    async def add_missing(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> int:
        """Add the messages that the cache lacks. Returns their number."""
        ...

    async def reset(self, shard: QueueShard, generation: int) -> None:
        """Forget the queue, whose generation has risen or is now DROPPED, and wake its waiters."""
        ...
