"""The contract of a queue engine. Every engine passes the conformance suite in `tests/conformance`.

An engine stores messages. It knows no account, policy, API limit or clock: times are arguments, in milliseconds since
the epoch. A message body is opaque bytes. Groups, deduplication, sequence numbers, spent messages and fairness belong
to the engine, because only the store can decide them atomically.

Terms: a *lease* is one delivery of one message; its receipt `handle` names that delivery and no other. A message is
either *delayed* (never delivered, not yet visible), *visible*, or *in flight* (delivered and still hidden).

Fencing: the handle of an earlier delivery is STALE once the message was delivered again, so that a consumer whose lease
ended cannot settle a message that another consumer holds. A `QueueRef` with `older_handles` lifts this for standard
queues, as SQS does: the handle of any delivery deletes its message and changes its visibility while the message exists.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from cns_common.metrics.model import Sample
from cqs.engines.options import EngineOption

DEDUP_WINDOW_MS = 300_000
ATTEMPT_WINDOW_MS = 300_000
FIFO_DELAY_MS_MAX = 900_000
"""The longest delay of a FIFO queue: a message sent longer ago is not delayed, whatever the queue's delay is."""
IN_FLIGHT_MAX = 120_000
"""Messages of one queue that may be in flight (SQS: 120,000, standard and FIFO)."""
NOISY_IN_FLIGHT_MIN = 30
NOISY_BUSY_MS_MIN = 1_000
NOISY_SHARE = 0.10
"""A tenant of a fair queue is noisy with `NOISY_IN_FLIGHT_MIN` messages in flight and more than this share of all in
flight, or with `NOISY_BUSY_MS_MIN` of recent processing time (time in flight, summed over its messages) and more than
this share of all processing time."""
NOISY_RECENT_MS = 30_000
"""Processing time decays exponentially: time this long ago counts a third of time now."""
SPENT_HIDE_MS = 30_000
"""The time for which a spent message stays hidden while the service moves it. After a crash it is received again."""

# The values are immutable, and `array_like` makes them plain arrays on the socket of the remote engine.


class QueueRef(msgspec.Struct, frozen=True, array_like=True):
    """A queue as the engine sees it. The service draws `id` and never uses it for another queue."""

    id: str
    fifo: bool
    retention_ms: int
    max_receives: int = 0  # 0: no redrive policy, so no message is ever spent
    older_handles: bool = False  # of the call, not of the queue; FIFO queues ignore it
    audit: str = ""  # the name under which `expired` lists its expired messages; '' for a queue without an audit
    options: tuple[tuple[str, str], ...] = ()  # the engine's options that were set: attribute name, normalised text
    version: int = 0  # of the queue's attributes: the higher one is the newer one

    def option(self, name: str, default: str) -> str:
        """The text of an option; `default` if it was not set."""
        return next((text for option, text in self.options if option == name), default)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A message to be sent. `id` is its identity (UUID text) and survives dead-letter moves."""

    id: str
    body: bytes
    born_at_ms: int  # retention counts from here
    visible_at_ms: int
    group: str = ""  # FIFO: the message group; standard: the tenant of a fair queue; '' for none
    dedup: str = ""  # FIFO: the deduplication key, already widened to its scope; '' for none
    deliveries: int = 0  # above 0 after a dead-letter move
    first_received_ms: int = 0


class SentEntry(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`id` and `sequence` are the original's if the entry was a duplicate; then nothing was enqueued."""

    id: str
    sequence: int
    duplicate: bool = False


class RejectedEntry(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The entry was not enqueued: its queue, or another queue of the same settlement, was dropped."""

    reason: Literal["no_such_queue", "another_rejected"] = "no_such_queue"


class Message(msgspec.Struct, frozen=True, array_like=True):
    """One delivery."""

    id: str
    handle: bytes
    body: bytes
    sequence: int
    deliveries: int  # including this one
    first_received_ms: int
    born_at_ms: int
    group: str


class ReceiveResult(msgspec.Struct, frozen=True, array_like=True):
    messages: tuple[Message, ...] = ()
    spent: tuple[Message, ...] = ()  # delivered `max_receives` times; leased so that the service can move them
    next_due_ms: int | None = None  # when the next hidden message becomes visible, if the engine knows
    limit_reached: bool = False  # IN_FLIGHT_MAX messages are in flight
    dropped: bool = False  # the queue does not exist any more
    received_at_ms: int = 0  # FIFO: when these leases were first given; under a repeated attempt id before now


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A new visibility, a new body, or both, for the message leased under `handle`."""

    handle: bytes
    visible_at_ms: int | None = None
    body: bytes | None = None


class Outcome(enum.IntEnum):
    """The outcome of a delete or change."""

    DONE = 0
    GONE = 1  # the message does not exist (deleted, purged, expired, moved)
    STALE = 2  # a newer delivery exists and the call is without `older_handles`: nothing changed
    EXPIRED = 3  # FIFO only: the visibility timeout of the lease is over: nothing changed
    MALFORMED = 4  # not a handle of this engine


class Counts(msgspec.Struct, frozen=True, array_like=True):
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    oldest_born_at_ms: int = 0  # 0 for an empty queue, or if it was not asked for


class PeekedMessage(msgspec.Struct, frozen=True, array_like=True):
    id: str
    body: bytes
    sequence: int
    deliveries: int
    first_received_ms: int
    born_at_ms: int
    visible_at_ms: int
    group: str


class PeekPage(msgspec.Struct, frozen=True, array_like=True):
    messages: tuple[PeekedMessage, ...] = ()
    cursor: str = ""  # of the next page; '' at the end


class ExpiredMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message of an audited queue that was removed for its age."""

    at_ms: int
    audit: str  # of the queue
    id: str
    group: str


class Settlement(msgspec.Struct, frozen=True, array_like=True):
    """Deletes, sends and changes across queues, in one step. Sends are applied first.

    `idle`: nothing is done unless each of these groups of messages is empty. Only for engines with `atomic_settle`.
    """

    deletes: tuple[tuple[QueueRef, bytes], ...] = ()
    sends: tuple[tuple[QueueRef, Entry], ...] = ()
    changes: tuple[tuple[QueueRef, Change], ...] = ()
    idle: tuple[tuple[QueueRef, str], ...] = ()


class SettlementResult(msgspec.Struct, frozen=True, array_like=True):
    """`busy`: the positions in `Settlement.idle` of the groups that have messages. Then nothing was done, and there are
    no other results."""

    deletes: tuple[Outcome, ...] = ()
    sends: tuple[SentEntry | RejectedEntry, ...] = ()
    changes: tuple[Outcome, ...] = ()
    busy: tuple[int, ...] = ()


class Capabilities(msgspec.Struct, frozen=True, array_like=True):
    """The capabilities of an engine. The service refuses a queue or message that needs more."""

    fifo: bool
    """FIFO queues: order within a group, deduplication, receive attempt ids, `redelay`. Else standard queues only."""
    update_body: bool
    """`Change.body`. Internal queues need it."""
    atomic_settle: bool
    """`settle` is one transaction. Else a crash may leave its sends without its deletes and changes."""
    max_delay_ms: int
    """The longest time from now to `Entry.visible_at_ms`."""
    exact_counts: bool
    """`counts` is exact while nothing changes. Else it is an estimate."""
    fair: bool
    """`Entry.group` of a standard queue is a tenant, and `receive` is fair between tenants."""
    order: Literal["oldest", "nearly"] = "oldest"
    """The order in which a standard queue gives its messages. "oldest": the message that became visible first is
    received first. "nearly": the same in one process with the engine's default options; with several processes or
    other options, messages may change places."""


class Waiter(Protocol):
    """A receive that waits for messages of one queue."""

    __slots__ = ()

    closed: bool

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return True once a message became visible, or the queue was dropped, since the last call.

        Return False at the timeout or once this waiter is closed. A wake-up may be spurious but is never missed. Each
        visible message wakes one waiter, so a woken waiter must receive; a full batch wakes the next waiter. Receive
        once before the first call: messages that were visible, delayed or in flight before are only considered then.
        """
        ...

    def pass_on(self) -> None:
        """Give a wake-up that was not used to another waiter."""
        ...

    def close(self) -> None:
        """Stop waiting: a running `wait` returns False, and its unused wake-up is passed on. Idempotent."""
        ...


class LongPolls(Protocol):
    """The long polls of one consumer. They wait in the process that stores the messages: no call is made meanwhile."""

    async def receive(self, q: QueueRef, want: int, lease_ms: int, wait_s: float) -> ReceiveResult:
        """Like `Engine.receive`, with leases of `lease_ms`. Wait up to `wait_s` for the first message."""
        ...

    def stop(self) -> None:
        """End all waits, and wait no more. A receive that is leasing messages at this moment still returns them."""
        ...


class Engine(Protocol):
    """Methods raise StoreUnavailable, StoreFull or OutcomeUnknown; every other outcome is a value."""

    capabilities: Capabilities

    options: Mapping[str, EngineOption]
    """The queue attributes that only queues of this engine have, by name."""

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        """Durable on return. A FIFO queue gets the entries in the order given."""
        ...

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        """Lease up to `want` messages until `visible_at_ms`.

        Standard queues: oldest visible message first; a fair engine serves tenants that are not noisy before noisy
        ones, and of the noisy ones the tenant with the fewest messages in flight. The lease may be lost in a crash: the
        message is then received again. FIFO queues: in order within each group, never past a hidden message of the
        group; durable on return. Within `ATTEMPT_WINDOW_MS` a repeated `attempt_id` renews and returns the same leases,
        unless one of their messages was deleted or changed.
        """
        ...

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        """Durable on return. A handle deletes after its visibility timeout, too, until a newer delivery is made; with
        `q.older_handles` even then."""
        ...

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        """New bodies and all changes of FIFO queues are durable on return. `q.older_handles` applies to visibility
        only: a new body needs the handle of the newest delivery."""
        ...

    async def settle(self, settlement: Settlement, now_ms: int) -> SettlementResult:
        """Durable on return. With `atomic_settle` all or nothing, except for deletes and changes that are not DONE.

        If a send is rejected, nothing is deleted or changed, and the result has no outcomes of deletes and changes.
        """
        ...

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        """Messages in any state: soonest due first, then those behind another message of their group."""
        ...

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        """Its time does not grow with what was deleted. With `oldest`, the time of the oldest message is read, too."""
        ...

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        """O(1): on return, all messages sent before and the deduplication history are gone."""
        ...

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        """O(1): the queue and its messages are gone, waiting receives are woken, and the id can never be used again."""
        ...

    async def set_attributes(self, q: QueueRef, now_ms: int) -> None:
        """The queue's attributes were changed to those of `q`: on return no process removes a message for its age by an
        earlier retention period, unless it was too old by that before this call."""
        ...

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        """FIFO queues: each message that was never delivered becomes visible `delay_ms` after it was sent."""
        ...

    async def maintain(self, budget: int, now_ms: int) -> int:
        """Examine or remove at most `budget` rows. Returns how many; fewer than `budget` means that no work is left."""
        ...

    async def expired(self, n: int) -> list[ExpiredMessage]:
        """Up to `n` messages of all audited queues, oldest first, from their removal until `forget_expired`. A crash
        may list a message twice, and never omits one."""
        ...

    async def forget_expired(self, messages: Sequence[ExpiredMessage]) -> None: ...

    def waiter(self, q: QueueRef) -> Waiter: ...

    def long_polls(self) -> LongPolls: ...


class LocalEngine(Engine, Protocol):
    """An engine that runs in this process."""

    def samples(self) -> list[Sample]:
        """Values for the metrics page."""
        ...
