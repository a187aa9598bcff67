"""The one port by which CNS reaches CQS: its own job queues, and customers' queues as endpoints.

Drivers: `cns.queue_port.inline` (the engine contract and the queue service in this process) and
`cns.queue_port.http` (another CQS over HTTP, signed).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

DELIVER_ENTRIES_MAX = 50
"""Messages in one `QueuePort.deliver`."""


class LeasedJob(msgspec.Struct, frozen=True):
    """A job under lease. `handle` names this delivery of it; group and sequence number are of FIFO queues."""

    id: str
    handle: str
    body: bytes
    deliveries: int
    group: str = ""
    sequence_number: str = ""


class NewJob(msgspec.Struct, frozen=True):
    """A job to be enqueued. The id makes a repeated settlement recognisable; the group shares the queue fairly. In a
    FIFO queue the group is what is kept in order, and a `dedup` seen within five minutes enqueues nothing."""

    queue: str
    id: str
    body: bytes
    group: str
    delay_ms: int = 0
    dedup: str = ""


class EnqueuedJob(msgspec.Struct, frozen=True):
    """A job in a FIFO queue: the first one's id and sequence number, for a duplicate, too."""

    id: str
    sequence_number: str
    duplicate: bool


class Renewal(msgspec.Struct, frozen=True):
    """Keep a held job for `visible_in_ms` more and, with a body, replace what it says."""

    queue: str
    handle: str
    visible_in_ms: int
    body: bytes | None = None


MessageAttributes = dict[str, dict[str, str | bytes]]
"""As SendMessage takes them."""


class QueueMessage(msgspec.Struct, frozen=True):
    """A notification as a customer's queue gets it."""

    body: str
    attributes: MessageAttributes = {}
    group: str = ""
    dedup: str = ""
    trace_header: str = ""


def size_of(body: str, attributes: MessageAttributes) -> int:
    """About how many bytes a message takes in a request."""
    size = len(body)
    for name, attribute in attributes.items():
        size += len(name) + sum(map(len, attribute.values()))
    return size


class Refusal(msgspec.Struct, frozen=True):
    """A customer's queue did not take the message; `permanent` says that trying again is no use."""

    code: str
    text: str
    permanent: bool


class QueuePort(Protocol):
    """Raises StoreUnavailable or OutcomeUnknown; everything else is a value."""

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None: ...

    async def enqueue_in_order(self, new_jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
        """Into one FIFO queue, in the order given; what became of each."""
        ...

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        """Jobs that are due, at most `n`; waits up to `wait_s` for the first."""
        ...

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        """Puts, deletes and renewals in one step where the engine can; for each of `deletes`: was it still held?"""
        ...

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        """Send to a customer's queue as the topic's service principal, in one step and in the order given; the id that
        each message has in the queue. At most `DELIVER_ENTRIES_MAX`; calls that overlap have no order among them."""
        ...

    async def depth(self, queue: str) -> int:
        """Jobs waiting or held."""
        ...

    def stop_waiting(self) -> None:
        """Receives that wait return empty from now on."""
        ...

    async def close(self) -> None: ...
