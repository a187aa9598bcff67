"""What a cache of the engine does: it knows which messages are visible when, and who holds them; never their bodies.

It may be lost at any time. Its *epoch* is one life of what it knows of one queue: a new one begins empty and is filled
from the rows. While it is filling, what is in it can be received already, and what is not in it may still exist.
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
"""Of a key, whether it still names its message's newest delivery. None: unknown, the rows must say."""


class CacheUnavailable(Exception):
    """The cache cannot be reached: what was asked may or may not have been done."""


class CachedMessage(NamedTuple):
    """A message as it comes into the cache."""

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
    """Rather nothing than less than what is wanted, while the cache is filled: to ask again when that is done."""


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
    """`add`, `take`, `counts` and `page` answer None when nothing is known of the queue: an epoch must be begun. Any
    method may raise CacheAway."""

    async def add(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        """Add messages that were sent, and wake who waits. Returns the generation that is current, or DROPPED."""
        ...

    async def undo_delete(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> None:
        """Bring back what was taken out to be deleted, and was not."""
        ...

    async def lease(self, queue_id: str, wish: LeaseRequest) -> LeaseResult | None: ...

    async def begin_delete(self, queue_id: str, keys: Sequence[DeliveryKey]) -> list[MaybeOutcome]:
        """Take messages that are to be deleted out. None: unknown, the rows must say. Who holds a delivery whose hiding
        was lost may delete the message, though another has it as well by now."""
        ...

    async def check(self, queue_id: str, key: DeliveryKey) -> MaybeOutcome:
        """Whether a key still names its message's newest delivery; nothing is changed. None: unknown."""
        ...

    async def set_visible_at(self, queue_id: str, key: DeliveryKey, visible_at_ms: int, now_ms: int) -> MaybeOutcome:
        """As `check`; when it does, and the cache has not been lost since, its message is visible from then on."""
        ...

    async def postpone(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """They were taken, and their rows say that another process hid them longer."""
        ...

    async def keep_hidden(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """Hide for so long at least what was given out while the cache was away."""
        ...

    async def forget(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        """Those messages have no rows any more."""
        ...

    async def counts(self, queue_id: str, now_ms: int, *, require_filled: bool) -> CacheCounts | None:
        """Patient: None as long as the cache is filled."""
        ...

    async def page(
        self, queue_id: str, after: tuple[int, str], n: int, *, require_filled: bool
    ) -> list[CachedMessage] | None:
        """Soonest due first, after (due, member). Patient: as above."""
        ...

    async def begin_epoch(self, queue_id: str, generation: int, filler: str) -> int:
        """Begin a new epoch, unless one runs. Returns the generation that `filler` is to fill it with; or FILLED, or
        FILLED_BY_ANOTHER while that one lives."""
        ...

    async def fill_page(self, queue_id: str, filler: str, items: Sequence[CachedMessage]) -> bool:
        """A page of what is there. False when another fills now: stop."""
        ...

    async def end_fill(self, queue_id: str, filler: str) -> None: ...

    async def add_missing(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int:
        """Add those that the cache lacks; returns how many there were."""
        ...

    async def reset(self, queue_id: str, generation: int) -> None:
        """Forget all of a queue, whose generation has risen or is now DROPPED, and wake who waits."""
        ...
