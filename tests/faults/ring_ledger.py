"""The reports of one queue's processes, and their faults: lost messages, deletes that came back, duplicates."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import NamedTuple

from tests.faults.ring_child import Report


class Delivery(NamedTuple):
    began_ms: int
    at_ms: int
    until_ms: int
    process: str


class RingLedger:
    def __init__(self) -> None:
        self.sending: set[str] = set()
        self.sent: dict[str, int] = {}
        self.deleting: set[str] = set()
        self.deleted: dict[str, int] = {}
        self.failed: Counter[str] = Counter()
        self.killed: dict[str, int] = {}
        """When each process was killed."""
        self._held: defaultdict[str, list[Delivery]] = defaultdict(list)

    @property
    def acknowledged(self) -> int:
        return len(self.sent) + len(self.deleted)

    def enter(self, report: Report, process: str) -> None:
        match report.kind:
            case "sending":
                self.sending.add(report.id)
            case "sent":
                self.sent[report.id] = report.at_ms
            case "held":
                self._held[report.id].append(Delivery(report.began_ms, report.at_ms, report.until_ms, process))
            case "deleting":
                self.deleting.add(report.id)
            case "deleted":
                self.deleted.setdefault(report.id, report.at_ms)
            case _:
                self.failed[report.id] += 1

    @property
    def expected(self) -> set[str]:
        """Messages that must be there: sent, and nobody began to delete them."""
        return self.sent.keys() - self.deleting

    def resurrected(self) -> set[str]:
        """Messages that a receive returned which began after their delete was acknowledged."""
        return {
            message
            for message, deliveries in self._held.items()
            if any(one.began_ms > self.deleted.get(message, one.began_ms) for one in deliveries)
        }

    def invented(self) -> set[str]:
        return self._held.keys() - self.sending

    def duplicates(self) -> Counter[str]:
        """Each delivery after a message's first one, by its cause."""
        causes: Counter[str] = Counter()
        for deliveries in self._held.values():
            ordered = sorted(deliveries)
            for earlier, later in pairwise(ordered):
                causes[self._cause(earlier, later)] += 1
        return causes

    def _cause(self, earlier: Delivery, later: Delivery) -> str:
        if later.at_ms >= earlier.until_ms:
            return "lease ran out"
        if later.began_ms <= earlier.at_ms:
            return "two receives at one moment"
        if self.killed.get(earlier.process, later.at_ms + 1) <= later.at_ms:
            return "the receiver was killed"
        return "none that is known"
