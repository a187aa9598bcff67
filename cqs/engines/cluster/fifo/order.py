"""The messages of a FIFO queue in order: by group, and the groups by the time at which their first message is due."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from cqs.engines.cluster.fifo.counts import HiddenMessages

GARBAGE_MIN = 64
"""A heap is rebuilt when it has this many stale entries more than valid ones."""
SPARSE = 8
"""If fewer than one in so many sequence numbers has a message, looking at each message costs less than trying each
number."""


class QueuedMessage(msgspec.Struct, array_like=True):
    """A message in the queue."""

    seq: int
    id: str
    location: str
    group: str
    born_at_ms: int
    visible_at_ms: int
    deliveries: int
    first_at_ms: int
    lease: int = 0


class MessageOrder:
    def __init__(self, messages: Iterable[QueuedMessage] = (), now_ms: int = 0) -> None:
        self.messages: dict[int, QueuedMessage] = {}  # in the order of their sequence numbers
        self.hidden = HiddenMessages()
        self._groups: dict[str, OrderedDict[int, None]] = {}  # finds the head and removes any message in O(1)
        self._heads: list[tuple[int, int]] = []  # (due, sequence) of each group's head; stale entries are skipped
        for message in messages:
            self.add(message, now_ms)

    def add(self, message: QueuedMessage, now_ms: int) -> None:
        self.messages[message.seq] = message
        self._groups.setdefault(message.group, OrderedDict())[message.seq] = None
        self.reschedule(message, message.visible_at_ms, now_ms)

    def remove(self, message: QueuedMessage) -> None:
        del self.messages[message.seq]
        self.hidden.remove(message.seq)
        group = self._groups[message.group]
        del group[message.seq]
        if not group:
            del self._groups[message.group]
        self.requeue_group(message.group)

    def reschedule(self, message: QueuedMessage, visible_at_ms: int, now_ms: int) -> None:
        """Set when the message becomes visible."""
        self.set_visible_at(message, visible_at_ms, now_ms)
        if self._head(message.group) == message.seq:
            self.requeue_group(message.group)

    def set_visible_at(self, message: QueuedMessage, visible_at_ms: int, now_ms: int) -> None:
        """Like `reschedule`, for a message whose group the caller requeues."""
        message.visible_at_ms = visible_at_ms
        self.hidden.remove(message.seq)
        if visible_at_ms > now_ms:
            self.hidden.add(message.seq, visible_at_ms, in_flight=message.deliveries > 0)

    def pop_due_head(self, now_ms: int) -> QueuedMessage | None:
        """Take the head of the group that has been due longest. The group is out of the queue until `requeue_group`."""
        if not self.is_due(now_ms):
            return None
        _, seq = heapq.heappop(self._heads)
        while self._heads and self._heads[0][1] == seq:
            heapq.heappop(self._heads)  # duplicate entries of the same head
        return self.messages[seq]

    def requeue_group(self, group: str) -> None:
        first = self._head(group)
        if first is None:
            return
        heapq.heappush(self._heads, (self.messages[first].visible_at_ms, first))
        if len(self._heads) > 2 * len(self._groups) + GARBAGE_MIN:
            firsts = [next(iter(seqs)) for seqs in self._groups.values()]
            self._heads = [(self.messages[seq].visible_at_ms, seq) for seq in firsts]
            heapq.heapify(self._heads)

    def visible_of_group(self, group: str, n: int, now_ms: int) -> list[QueuedMessage]:
        """The first `n` messages of a group, ending before the first hidden one."""
        visible: list[QueuedMessage] = []
        for seq in islice(self._groups[group], n):
            message = self.messages[seq]
            if message.visible_at_ms > now_ms:
                break
            visible.append(message)
        return visible

    def is_due(self, now_ms: int) -> bool:
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= now_ms

    def next_due_ms(self) -> int | None:
        while self._heads and not self._is_current_head(*self._heads[0]):
            heapq.heappop(self._heads)
        return self._heads[0][0] if self._heads else None

    def heads(self, after: tuple[int, int], n: int) -> list[QueuedMessage]:
        """The next `n` heads of groups after (due, sequence), soonest due first. It visits only these and the heads
        before them."""
        found: list[QueuedMessage] = []
        frontier = [(self._heads[0], 0)] if self._heads else []  # entries whose parents were looked at, by position
        last: tuple[int, int] | None = None
        while frontier and len(found) < n:
            entry, at = heapq.heappop(frontier)
            for child in range(2 * at + 1, min(2 * at + 3, len(self._heads))):
                heapq.heappush(frontier, (self._heads[child], child))
            if entry > after and entry != last and self._is_current_head(*entry):
                found.append(self.messages[entry[1]])
                last = entry
        return found

    def behind_heads(self, after: int, n: int) -> list[QueuedMessage]:
        """The next `n` messages after this sequence number, in order, that are not the head of their group."""
        behind = (message for message in self._from(after + 1) if self._head(message.group) != message.seq)
        return list(islice(behind, n))

    def _from(self, seq: int) -> Iterator[QueuedMessage]:
        """The messages from this sequence number on, without a look at those before."""
        if not self.messages:
            return iter(())
        first, last = max(seq, next(iter(self.messages))), next(reversed(self.messages))
        if last - first > SPARSE * len(self.messages):
            return (message for message in self.messages.values() if message.seq >= first)
        return (message for at in range(first, last + 1) if (message := self.messages.get(at)) is not None)

    def _head(self, group: str) -> int | None:
        seqs = self._groups.get(group)
        return next(iter(seqs)) if seqs else None

    def _is_current_head(self, due_ms: int, seq: int) -> bool:
        message = self.messages.get(seq)
        return message is not None and message.visible_at_ms == due_ms and self._head(message.group) == seq
