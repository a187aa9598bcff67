"""Counts the messages that this process sends, hands out, deletes and moves, by queue.

What was counted is taken once a minute, and becomes `queue.counted`. CNS's own queues are not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from cns_common.metrics.catalogue import QUEUE_MESSAGES
from cns_common.metrics.model import Sample
from cqs.engines.contract import Message, Outcome, RejectedEntry, SentEntry
from cqs.queues.view import QueueView

QUEUES_SHOWN_MAX = 500
_ACTIONS = ("sent", "received", "received_again", "deleted", "moved_in", "moved_out")


class QueueCount:
    """Messages of one queue. `view` is the queue as it was used last."""

    __slots__ = ("deleted", "moved_in", "moved_out", "received", "received_again", "sent", "view")

    def __init__(self, view: QueueView) -> None:
        self.view = view
        self.sent = 0
        self.received = 0
        self.received_again = 0  # of those received: they came back after an earlier receive
        self.deleted = 0
        self.moved_in = 0
        self.moved_out = 0

    def values(self) -> tuple[int, ...]:
        """In the order of `_ACTIONS`."""
        return (self.sent, self.received, self.received_again, self.deleted, self.moved_in, self.moved_out)


class QueueCounters:
    """Each method costs less than a microsecond."""

    def __init__(self) -> None:
        self.shown_max = QUEUES_SHOWN_MAX
        """Queues that have metrics of their own. Those that follow share the label ''."""
        self._counts: dict[str, QueueCount] = {}  # by ARN, since they were taken last
        self._taken: dict[str, tuple[int, ...]] = {}  # by ARN, before that
        self._internal: QueueCount | None = None  # of all internal queues: not read

    def add_sent(self, view: QueueView, sent: Sequence[SentEntry | RejectedEntry]) -> None:
        self._count(view).sent += count_new(sent)

    def add_received(self, view: QueueView, messages: Sequence[Message]) -> None:
        if messages:
            count = self._count(view)
            count.received += len(messages)
            count.received_again += sum([message.deliveries > 1 for message in messages])

    def add_deleted(self, view: QueueView, outcomes: Sequence[Outcome]) -> None:
        if deleted := outcomes.count(Outcome.DONE):
            self._count(view).deleted += deleted

    def add_moved(
        self,
        source: QueueView,
        target: QueueView,
        sent: Sequence[SentEntry | RejectedEntry],
        deleted: Sequence[Outcome],
    ) -> None:
        self._count(target).moved_in += count_new(sent)
        self._count(source).moved_out += deleted.count(Outcome.DONE)

    def views(self) -> list[QueueView]:
        """The queues that were counted since the last `take`."""
        return [count.view for count in self._counts.values()]

    def take(self, arns: Iterable[str]) -> list[QueueCount]:
        """Return the counts of these queues, and begin anew with them."""
        taken = [self._counts.pop(arn) for arn in arns]
        for count in taken:
            label = self.label(count.view.arn)
            self._taken[label] = _sums(self._taken.get(label), count)
        return taken

    def samples(self) -> list[Sample]:
        """The messages since the process started, by queue and action."""
        totals = dict(self._taken)
        for arn, count in self._counts.items():
            label = arn if arn in totals or self._has_room(totals) else ""
            totals[label] = _sums(totals.get(label), count)
        return [
            QUEUE_MESSAGES.sample(n, queue=arn, action=action)
            for arn, values in totals.items()
            for action, n in zip(_ACTIONS, values, strict=True)
        ]

    def label(self, arn: str) -> str:
        """The queue's label in metrics, as long as no other queue is taken."""
        return arn if arn in self._taken or self._has_room(self._taken) else ""

    def _has_room(self, shown: Collection[str]) -> bool:
        return len(shown) - ("" in shown) < self.shown_max

    def _count(self, view: QueueView) -> QueueCount:
        count = self._internal if view.internal else self._counts.get(view.arn)
        if count is None:
            count = QueueCount(view)
            if view.internal:
                self._internal = count
            else:
                self._counts[view.arn] = count
        else:
            count.view = view
        return count


def count_new(sent: Sequence[SentEntry | RejectedEntry]) -> int:
    """The messages that were enqueued: neither rejected nor duplicates in a FIFO queue."""
    return sum([isinstance(one, SentEntry) and not one.duplicate for one in sent])


def _sums(before: tuple[int, ...] | None, count: QueueCount) -> tuple[int, ...]:
    values = count.values()
    return values if before is None else tuple([a + b for a, b in zip(before, values, strict=True)])
