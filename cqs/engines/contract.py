"""What a queue engine promises. Every driver passes one conformance suite, `tests/conformance`.

An engine keeps messages; it knows no account, no policy, no limit of the API and no clock: times are arguments, in
milliseconds since the epoch. A message's body is opaque bytes to it. Groups, deduplication, sequence numbers, spent
messages and fairness are the engine's, because only where messages lie can they be decided atomically.

Words: a *lease* is one delivery of one message; its receipt `handle` names that delivery and no other. A message is
*delayed* (never delivered, not yet visible), *visible*, or *in flight* (delivered and still hidden), exactly one.

Fencing: the handle of an earlier delivery is STALE once its message was delivered again, so that a holder whose lease
ran out cannot settle what another holds. A call by a reference with `older_handles` lifts that for standard queues, as
SQS has it: there the handle of any delivery deletes its message, and changes its visibility, as long as it exists.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

DEDUP_WINDOW_MS = 300_000
ATTEMPT_WINDOW_MS = 300_000
FIFO_DELAY_MS_MAX = 900_000
"""The longest delay that a FIFO queue can have: what was sent before that is not delayed, whatever the delay is."""
IN_FLIGHT_MAX = 120_000
"""Messages of one queue that may be in flight (SQS: 120,000, standard and FIFO)."""
NOISY_IN_FLIGHT_MIN = 30
NOISY_BUSY_MS_MIN = 1_000
NOISY_SHARE = 0.10
"""A tenant of a fair queue is noisy with this many in flight and more than this share of all in flight, or with this
much recent processing time (time in flight, summed over its messages) and more than this share of all of that."""
SPENT_HIDE_MS = 30_000
"""How long a spent message stays hidden while the service moves it: after a crash it is offered again."""

# The values are immutable, and `array_like` makes them plain arrays on the socket of the remote driver.


class QueueRef(msgspec.Struct, frozen=True, array_like=True):
    """A queue as its engine sees it. `id` is the service's and is never used for another queue."""

    id: str
    fifo: bool
    retention_ms: int
    max_receives: int = 0  # 0: no redrive policy, nothing is ever spent
    older_handles: bool = False  # of the call: handles of earlier deliveries are good, too; FIFO queues ignore it


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A message to be sent. `id` is its identity (UUID text), kept through dead-letter moves."""

    id: str
    body: bytes
    born_at_ms: int  # retention counts from here
    visible_at_ms: int
    group: str = ""  # FIFO: the ordered group; standard: the tenant of a fair queue; '' for none
    dedup: str = ""  # FIFO: the deduplication key, already widened to its scope; '' for none
    deliveries: int = 0  # carried on by a dead-letter move
    first_received_ms: int = 0


class Sent(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`id` and `sequence` are the original's when the entry was a duplicate, and nothing was enqueued."""

    id: str
    sequence: int
    duplicate: bool = False


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The entry was not enqueued: its queue, or another's of the same settlement, has been dropped."""

    reason: Literal["no_such_queue", "another_rejected"] = "no_such_queue"


class Message(msgspec.Struct, frozen=True, array_like=True):
    """One delivery."""

    id: str
    handle: bytes
    body: bytes
    sequence: int
    deliveries: int  # this one included
    first_received_ms: int
    born_at_ms: int
    group: str


class Received(msgspec.Struct, frozen=True, array_like=True):
    messages: tuple[Message, ...] = ()
    spent: tuple[Message, ...] = ()  # delivered `max_receives` times; leased so that the service can move them
    next_due_ms: int | None = None  # when a message now hidden becomes visible, where the engine knows
    limit_reached: bool = False  # IN_FLIGHT_MAX are in flight
    dropped: bool = False  # the queue exists no more
    received_at_ms: int = (
        0  # FIFO: when these leases were first given out; earlier than now under a repeated attempt id
    )


class Change(msgspec.Struct, frozen=True, array_like=True):
    """New visibility and/or new body of a message held under `handle`."""

    handle: bytes
    visible_at_ms: int | None = None
    body: bytes | None = None


class Outcome(enum.IntEnum):
    """What became of a delete or change."""

    DONE = 0
    GONE = 1  # the message exists no more (deleted, purged, expired, moved)
    STALE = 2  # a newer delivery exists, and the call is without `older_handles`; nothing was done
    EXPIRED = 3  # FIFO only: the lease's visibility timeout is over; nothing was done
    MALFORMED = 4  # not a handle of this engine


class Counts(msgspec.Struct, frozen=True, array_like=True):
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    oldest_born_at_ms: int = 0  # 0 when empty


class Peeked(msgspec.Struct, frozen=True, array_like=True):
    id: str
    body: bytes
    sequence: int
    deliveries: int
    first_received_ms: int
    born_at_ms: int
    visible_at_ms: int
    group: str


class Page(msgspec.Struct, frozen=True, array_like=True):
    messages: tuple[Peeked, ...] = ()
    cursor: str = ""  # pass it on for the next page; '' at the end


class Settlement(msgspec.Struct, frozen=True, array_like=True):
    """Deletes, sends and changes across queues, in one step. Sends are applied first."""

    deletes: tuple[tuple[QueueRef, bytes], ...] = ()
    sends: tuple[tuple[QueueRef, Entry], ...] = ()
    changes: tuple[tuple[QueueRef, Change], ...] = ()


class Settled(msgspec.Struct, frozen=True, array_like=True):
    deletes: tuple[Outcome, ...] = ()
    sends: tuple[Sent | Rejected, ...] = ()
    changes: tuple[Outcome, ...] = ()


class Capabilities(msgspec.Struct, frozen=True, array_like=True):
    """What a driver lacks is said here, and the service refuses a queue that would need it."""

    order: Literal["none", "hinted", "group"]
    dedup: bool
    exact_counts: bool
    fair: bool
    update_body: bool
    atomic_settle: bool  # a settlement is one transaction; otherwise sends go first under ids derived from the deleted
    max_delay_ms: int


class Wakeups(Protocol):
    """One waiting receive. Closing is idempotent."""

    @property
    def closed(self) -> bool: ...

    async def wait(self, timeout_s: float | None = None) -> bool:
        """True once something of the queue became visible (or the queue was dropped) since the last call.

        False once the time is over, or this is closed. May be true without cause; is never silent with one. A wake-up
        goes to one waiter per visible message, so a waiter that is woken must receive, and one that took a full batch
        is followed by the next by itself. Receive once before the first call, too: only that makes sure of what was
        visible, delayed or in flight already.
        """
        ...

    def pass_on(self) -> None:
        """Give a wake-up that was not used to another waiter."""
        ...

    def close(self) -> None:
        """Wait no more: a `wait` under way returns False, and a wake-up that it has not returned is passed on."""
        ...


class Waits(Protocol):
    """Receives of one user, which wait where the messages are: a process away, no word goes to and fro before there is
    something."""

    async def receive(self, q: QueueRef, want: int, lease_ms: int, wait_s: float) -> Received:
        """As `Engine.receive` for `lease_ms` from then on; waits up to `wait_s` for the first message."""
        ...

    def stop(self) -> None:
        """None waits from now on; one that is leasing messages just now still hands them out."""
        ...


class Engine(Protocol):
    """Raises StoreUnavailable, StoreFull or OutcomeUnknown; everything else is a value."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[Sent | Rejected]:
        """Durable when it returns. Entries of a FIFO queue are enqueued in the order given."""
        ...

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = "") -> Received:
        """Lease up to `want` messages until `visible_at_ms`.

        Standard queues: oldest visible first, tenants that are not noisy before those that are, and of those whoever
        has fewest in flight; not waited for (a crash may repeat a message). FIFO: in order within each group, never
        past a hidden message of it, durable when it returns. A repeated `attempt_id` within five minutes returns the
        same leases anew, unless one of their messages was deleted or changed.
        """
        ...

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        """Durable when it returns. A handle deletes after its visibility timeout, too, as long as no newer delivery was
        made; with `q.older_handles` also then."""
        ...

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        """Durable when it returns: bodies, and all of FIFO queues. `q.older_handles` is for visibility alone: a new
        body takes the handle of the newest delivery."""
        ...

    async def settle(self, settlement: Settlement, now_ms: int) -> Settled:
        """Durable when it returns. Where `atomic_settle`, all or nothing, the not-DONE deletes and changes excepted.

        When a send is rejected nothing is deleted or changed, and the answer has no outcomes of either.
        """
        ...

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> Page:
        """Messages whatever their state, soonest due first, then those behind another of their group."""
        ...

    async def counts(self, q: QueueRef, now_ms: int) -> Counts: ...

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        """O(1): everything sent before, and the deduplication history, is gone when it returns."""
        ...

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        """O(1): the queue and its messages are gone; waiting receives are woken; its id stays dead for ever."""
        ...

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        """FIFO queues: each message that was never delivered becomes visible `delay_ms` after it was sent."""
        ...

    async def maintain(self, budget: int, now_ms: int) -> int:
        """Look at or clear up at most `budget` rows; returns how many (fewer than `budget`: nothing else waits)."""
        ...

    def wakeups(self, q: QueueRef) -> Wakeups: ...

    def waits(self) -> Waits: ...
