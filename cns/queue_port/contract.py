"""The contract of the queue port, through which CNS uses CQS: its own job queues, and customers' queues as endpoints.

Drivers: `cns.queue_port.inline` (engine and queue service in this process) and `cns.queue_port.http` (another CQS over
HTTP, signed).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

DELIVER_ENTRIES_MAX = 50
"""Messages in one `QueuePort.deliver`."""


class LeasedJob(msgspec.Struct, frozen=True):
    """A job under lease. `handle` names this delivery of it. Only FIFO queues have group and sequence number."""

    id: str
    handle: str
    body: bytes
    deliveries: int
    group: str = ""
    sequence_number: str = ""
    sent_ms: int = 0
    """When it was enqueued."""


class NewJob(msgspec.Struct, frozen=True):
    """A job to enqueue. A repeated settlement is recognised by `id`; `group` is the fairness group of a standard queue.

    In a FIFO queue `group` is the message group, and a `dedup` id seen within five minutes enqueues nothing.
    """

    queue: str
    id: str
    body: bytes
    group: str
    delay_ms: int = 0
    dedup: str = ""


class EnqueuedJob(msgspec.Struct, frozen=True):
    """The id and sequence number of a job in a FIFO queue; those of the first job for a duplicate."""

    id: str
    sequence_number: str
    duplicate: bool


class Renewal(msgspec.Struct, frozen=True):
    """Hide a leased job for another `visible_in_ms` and, with a body, replace its body."""

    queue: str
    handle: str
    visible_in_ms: int
    body: bytes | None = None


MessageAttributes = dict[str, dict[str, str | bytes]]
"""Message attributes as SendMessage takes them."""


class QueueMessage(msgspec.Struct, frozen=True):
    """A notification as it is sent to a customer's queue."""

    body: str
    attributes: MessageAttributes = {}
    group: str = ""
    dedup: str = ""
    trace_header: str = ""


def size_of(body: str, attributes: MessageAttributes) -> int:
    """Approximate bytes of a message in a request."""
    size = len(body)
    for name, attribute in attributes.items():
        size += len(name) + sum(map(len, attribute.values()))
    return size


class Refusal(msgspec.Struct, frozen=True):
    """A customer's queue refused the message. `permanent`: no retry can succeed."""

    code: str
    text: str
    permanent: bool


class QueueDelivery(msgspec.Struct, frozen=True):
    """A notification for a subscribed queue, in the commit of its publish."""

    subscription: str  # ARN
    queue_arn: str
    message: QueueMessage


class CommitAnswer(NamedTuple):
    """`is_done`: else nothing was done. `message_ids`: the ids in the queues; None where the queue does not take the
    message, or a job of the subscription alone waits. `is_topic_busy`: a job for several of its queues waits."""

    is_done: bool
    message_ids: Sequence[str | None]
    is_topic_busy: bool = False


class CommitDelivery(Protocol):
    """Delivers to customers' queues in the commit that enqueues jobs. There is none where an engine cannot do both in
    one transaction. `write` raises as methods of `QueuePort` do."""

    async def write(
        self, new_jobs: Sequence[NewJob], deliveries: Sequence[QueueDelivery], topic_arn: str
    ) -> CommitAnswer:
        """Enqueue the jobs and send to the queues: all of it, or nothing if a queue does not take its message or a
        message would overtake a job."""
        ...


class QueuePort(Protocol):
    """Methods raise StoreUnavailable or OutcomeUnknown; other results are values."""

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None: ...

    async def enqueue_in_order(self, new_jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
        """Enqueue into one FIFO queue in the given order. Returns one result per job."""
        ...

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        """At most `n` visible jobs; waits up to `wait_s` for the first."""
        ...

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        """Delete, enqueue and renew, atomically where the engine can.

        `deletes` has handles of jobs in `queue`. Returns for each whether it was still leased.
        """
        ...

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        """Send at most `DELIVER_ENTRIES_MAX` messages to a customer's queue as sns.amazonaws.com on behalf of the
        topic.

        They are sent in one step and in order; concurrent calls have no order. Returns the message ids in the queue.
        """
        ...

    async def depth(self, queue: str) -> int:
        """Number of jobs in the queue, leased ones included."""
        ...

    def stop_waiting(self) -> None:
        """From now on waiting receives return no jobs."""
        ...

    async def close(self) -> None: ...
