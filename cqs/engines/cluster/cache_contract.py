"""The contract of the engine's cache: it knows when each message is visible and which delivery is the newest, but no
bodies.

It may be lost at any time. An *epoch* is one lifetime of the cache's knowledge of one queue: it begins empty and is
filled from the rows. During the fill, messages in the cache can be received; messages that are not in it may still
exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cqs.engines.cluster.ids import DeliveryKey, MessageLocation
from cqs.engines.contract import Outcome

EPOCH_DIGITS = 16
DROPPED = -1
FILLED = -1
FILLED_BY_ANOTHER = -2


MaybeOutcome = Outcome | None
"""For a delivery key, whether it names its message's newest delivery. None if the cache does not know: ask the rows."""


class CacheUnavailable(Exception):
    """The cache did not answer: the call may or may not have taken effect."""


class CachedMessage(NamedTuple):
    """A message as the cache stores it."""

    location: MessageLocation
    visible_at_ms: int
    deliveries: int = 0
    first_at_ms: int = 0


class Lease(NamedTuple):
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
    leases: tuple[Lease, ...] = ()
    next_due_ms: int | None = None
    limit_reached: bool = False
    filling: bool = False
    dropped: bool = False


class CacheCounts(NamedTuple):
    visible: int
    in_flight: int
    delayed: int


class Cache(Protocol):
    """`add`, `lease`, `counts` and `page` return None if the cache knows nothing of the queue: an epoch must be begun.
    Each method may raise CacheUnavailable."""

    async def add(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        """Add sent messages and wake waiters. Returns the queue's current generation, or DROPPED."""
        ...

    async def undo_delete(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> None:
        """Return messages to the cache whose rows, after `begin_delete`, may not have been deleted."""
        ...

    async def lease(self, queue_id: str, request: LeaseRequest) -> LeaseResult | None: ...

    async def begin_delete(self, queue_id: str, keys: Sequence[DeliveryKey]) -> list[MaybeOutcome]:
        """Remove messages from the cache before their rows are deleted. If the cache lost the visibility of a delivery,
        the key of that delivery still deletes, even if the message was delivered again meanwhile."""
        ...

    async def check(self, queue_id: str, key: DeliveryKey) -> MaybeOutcome:
        """Whether the key names its message's newest delivery. Changes nothing."""
        ...

    async def set_visible_at(self, queue_id: str, key: DeliveryKey, visible_at_ms: int, now_ms: int) -> MaybeOutcome:
        """Like `check`; if DONE, also set the time at which the message becomes visible."""
        ...

    async def postpone(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """Hide messages that were leased although another process had hidden them for longer, as their rows say."""
        ...

    async def keep_hidden(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """Hide messages that were leased while the cache was unavailable for at least as long as given."""
        ...

    async def forget(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        """Remove messages that have no rows."""
        ...

    async def counts(self, queue_id: str, now_ms: int, *, require_filled: bool) -> CacheCounts | None:
        """None during a fill, if `require_filled`."""
        ...

    async def page(
        self, queue_id: str, after: tuple[int, str], n: int, *, require_filled: bool
    ) -> list[CachedMessage] | None:
        """Up to `n` messages, soonest due first, after (due, member). None during a fill, if `require_filled`."""
        ...

    async def begin_epoch(self, queue_id: str, generation: int, filler: str) -> int:
        """Begin an epoch unless one exists. Returns the generation that `filler` must fill it with, FILLED, or
        FILLED_BY_ANOTHER while another filler is alive."""
        ...

    async def fill_page(self, queue_id: str, filler: str, items: Sequence[CachedMessage]) -> bool:
        """Add a page of the queue's messages. Returns False if another filler has taken over: stop."""
        ...

    async def end_fill(self, queue_id: str, filler: str) -> None: ...

    async def add_missing(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int:
        """Add the messages that the cache lacks. Returns their number."""
        ...

    async def reset(self, queue_id: str, generation: int) -> None:
        """Forget the queue, whose generation has risen or is now DROPPED, and wake its waiters."""
        ...
