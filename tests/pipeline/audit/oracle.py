"""The audit by brute force, from the definitions alone: loops over all lines, subsequences by quadratic search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cns_common.events.audit_events import MessageDeleted, MessageEnded, MessageReceived, MessageSent, QueueAudited
from cns_common.events.schema import QueueCounted, SegmentOpened, SegmentSealed
from tests.pipeline.audit.random_logs import Line

FOREVER_MS = 1 << 62
MINUTE_MS = 60_000


class Span(NamedTuple):
    from_ms: int
    to_ms: int


@dataclass
class Message:
    sends: list[tuple[bool, int, str, int, MessageSent]] = field(default_factory=list)
    receives: list[tuple[int, int, str, int, MessageReceived]] = field(default_factory=list)
    deletes: list[MessageDeleted] = field(default_factory=list)
    ends: list[MessageEnded] = field(default_factory=list)

    @property
    def sent(self) -> MessageSent | None:
        return min(self.sends)[-1] if self.sends else None

    @property
    def is_corrupt(self) -> bool:
        return bool(self.sent and self.sent.checksum) and any(
            receive[-1].checksum != self.sent.checksum for receive in self.receives if self.sent
        )


@dataclass
class Oracle:
    """An oracle over all lines at once: gaps of one queue's processes hide fates of other queues' messages, too."""

    lines: Sequence[Line]
    lost_after_ms: int
    messages: dict[str, dict[str, Message]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Message)))

    changes: dict[str, list[QueueAudited]] = field(default_factory=lambda: defaultdict(list))
    empty_ms: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    boots: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for line in self.lines:
            self.boots[line.boot].append(line)
            self._add(line)
        self.end_ms = max(line.event.at_ms for line in self.lines)
        self.gaps = [span for boot in self._audited_boots() for span in self._gaps(boot)]

    def fate(self, queue: str, message: Message) -> str:
        sent = message.sent
        if sent is None:
            return "unsent" if message.receives or message.deletes else ""
        if message.is_corrupt:
            return "corrupt"
        if message.receives or message.deletes:
            return "received"
        if self.end_cause(queue, message):
            return "ended"
        rest_ms = self._rest_ms(queue, sent.at_ms)
        if rest_ms is None:
            return "waiting"
        hidden = [*self.gaps, *self._off(queue), *self._after_purges(queue)]
        is_hidden = any(span.from_ms <= rest_ms and span.to_ms >= sent.at_ms for span in hidden)
        return "unknown" if is_hidden else "missing"

    def end_cause(self, queue: str, message: Message) -> str:
        """A purge ends only what nothing else is known of, and nothing of a queue that was empty since the send."""
        if message.ends:
            return max((end.at_ms, end.cause) for end in message.ends)[1]
        sent = message.sent
        if sent is None or message.receives or message.deletes:
            return ""
        later = [(end.at_ms, end.cause) for end in self._purges(queue) if end.at_ms >= sent.at_ms]
        at_ms, cause = min(later, default=(0, ""))
        empty = [at for at in self.empty_ms[queue] if at - MINUTE_MS >= sent.at_ms and at + 2 * MINUTE_MS <= at_ms]
        return "" if empty else cause

    def counts(self, queue: str) -> dict[str, int]:
        known = [message for message_id, message in self.messages[queue].items() if message_id]
        sent = [message for message in known if message.sent]
        causes = [self.end_cause(queue, message) for message in sent]
        fates = [self.fate(queue, message) for message in known]
        return {
            "sent": len(sent),
            "received": sum(bool(message.receives) for message in sent),
            "deleted": sum(bool(message.deletes) for message in sent),
            "receives": sum(len(message.receives) for message in sent),
            "duplicates": sum(max(len(message.receives) - 1, 0) for message in sent),
            "repeated": sum(_repeated(message) for message in sent),
            **{name: causes.count(name) for name in ("expired", "purged", "dead_lettered", "moved", "queue_deleted")},
            **{name: fates.count(name) for name in ("waiting", "unknown", "missing", "corrupt", "unsent")},
            "lost": fates.count("missing") + fates.count("corrupt"),
        }

    def pairs(self, queue: str) -> dict[tuple[str, str, str], tuple[int, int, int]]:
        """By (group, sender, receiver): messages, out of order, sum of displacements."""
        found: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
        for message_id, message in self.messages[queue].items():
            if message_id and message.sends and message.receives:
                _, _, boot, sequence, sent = min(message.sends)
                _, _, receiver, received, _ = min(message.receives)
                if sent.sequence_number:
                    found[(sent.group, "", receiver)].append((received, int(sent.sequence_number)))
                else:
                    found[("", boot, receiver)].append((received, sequence))
        return {pair: measure([right for _, right in sorted(of_pair)]) for pair, of_pair in found.items()}

    def lost(self) -> set[tuple[str, str, str]]:
        return {
            (queue, message_id, fate)
            for queue, messages in self.messages.items()
            for message_id, message in messages.items()
            if message_id and (fate := self.fate(queue, message)) in ("missing", "corrupt")
        }

    # -- evidence -----------------------------------------------------------------------------------------------------

    def _add(self, line: Line) -> None:
        at = line.event.at_ms, line.boot, line.sequence
        match line.event:
            case MessageSent() as event:
                self.messages[event.queue][event.message_id].sends.append((event.duplicate, *at, event))
            case MessageReceived() as event:
                self.messages[event.queue][event.message_id].receives.append((event.receive_count, *at, event))
            case MessageDeleted() as event:
                self.messages[event.queue][event.message_id].deletes.append(event)
            case MessageEnded() as event:
                self.messages[event.queue][event.message_id].ends.append(event)
            case QueueAudited() as event:
                self.changes[event.queue].append(event)
            case QueueCounted(visible=0, in_flight=0, delayed=0) as event:
                self.empty_ms[event.queue].append(event.at_ms)

    def _audited_boots(self) -> list[str]:
        kinds = (MessageSent, MessageReceived, MessageDeleted, MessageEnded)
        return sorted({line.boot for line in self.lines if isinstance(line.event, kinds)})

    def _gaps(self, boot: str) -> Iterable[Span]:
        own = self.boots[boot]
        times = {line.sequence: line.event.at_ms for line in own if line.sequence}
        sealed = [line.event for line in own if isinstance(line.event, SegmentSealed)]
        opened = [line.event for line in own if isinstance(line.event, SegmentOpened)]
        last = max([*times, *[seal.last_sequence for seal in sealed]])
        before_ms = opened[0].at_ms if opened else 0
        hidden = False
        for number in range(1, last + 2):
            at_ms = times.get(number, sealed[0].at_ms if number == last + 1 and sealed else None)
            if number <= last and number not in times:
                hidden = True
            elif at_ms is not None:
                if hidden:
                    yield Span(before_ms, at_ms)
                before_ms, hidden = at_ms, False
        if not any(seal.stopped or seal.recovered for seal in sealed):
            newest_ms = max(line.event.at_ms for line in own)
            yield Span(max(newest_ms, self.end_ms - 15 * MINUTE_MS), FOREVER_MS)

    def _off(self, queue: str) -> list[Span]:
        """There is one change of the audit in a log at most."""
        return [
            Span(0, change.complete_from_ms) if change.audit == "on" else Span(change.at_ms, FOREVER_MS)
            for change in self.changes[queue]
        ]

    def _purges(self, queue: str) -> list[MessageEnded]:
        return self.messages[queue][""].ends if "" in self.messages[queue] else []

    def _after_purges(self, queue: str) -> list[Span]:
        """A sender's clock may be ahead of the purger's."""
        return [Span(purge.at_ms, purge.at_ms + 2 * MINUTE_MS) for purge in self._purges(queue)]

    def _rest_ms(self, queue: str, sent_ms: int) -> int | None:
        empty = [at_ms for at_ms in self.empty_ms[queue] if at_ms - MINUTE_MS >= sent_ms]
        old_ms = sent_ms + self.lost_after_ms
        expired = [old_ms] if old_ms <= self.end_ms else []
        return min([*empty, *expired], default=None)


def measure(rights: Sequence[int]) -> tuple[int, int, int]:
    """Messages, out of order, sum of displacements, of the send numbers in the order of receives."""
    longest: list[int] = []
    for place, right in enumerate(rights):
        longest.append(1 + max([longest[before] for before in range(place) if rights[before] < right], default=0))
    ranks = sorted(rights)
    displacement = sum(abs(place - ranks.index(right)) for place, right in enumerate(rights))
    return len(rights), len(rights) - max(longest, default=0), displacement


def _repeated(message: Message) -> int:
    """Receives beyond one for each receive count from the lowest to the highest."""
    counts = [receive[0] for receive in message.receives]
    return max(len(counts) - (max(counts) - min(counts) + 1), 0) if counts else 0
