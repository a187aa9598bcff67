"""Rates of queues, topics and endpoints: from two metrics pages, and from the events of this machine's processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cns_cli.overview.metrics import MetricsPage
from cns_common.errors import UNREADABLE
from cns_common.events.files import OPEN, SEALED
from cns_common.metrics.catalogue import QUEUE_DEPTH, QUEUE_MESSAGES, QUEUE_OLDEST_SECONDS

PUBLISHED = "publish.accepted"
DELIVERED = "delivery.delivered"
ATTEMPTED = "delivery.attempted"
FAILED = "failed"
"""The outcome of an attempt, and the key that it is counted under."""
READ_BYTES_MAX = 16 * 1024 * 1024
"""The limit of bytes read from one segment at a time; the next read continues."""


class QueueRate(msgspec.Struct, frozen=True, rename="camel"):
    queue: str
    sent: float
    received: float
    deleted: float
    visible: int
    in_flight: int
    oldest_s: int


class TopicRate(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    published: float
    delivered: float
    failed: float


class EndpointRate(msgspec.Struct, frozen=True, rename="camel"):
    endpoint: str
    delivered: float
    failed: float


def queue_rates(before: MetricsPage, now: MetricsPage, seconds: float) -> list[QueueRate]:
    """All queues that a process used since its start, the busiest first. Rates are per second."""
    actions = {action: _change(before, now, action) for action in ("sent", "received", "deleted")}
    visible, in_flight = (
        now.by(QUEUE_DEPTH, "queue", greatest=True, state="visible"),
        now.by(QUEUE_DEPTH, "queue", greatest=True, state="in_flight"),
    )
    oldest = now.by(QUEUE_OLDEST_SECONDS, "queue", greatest=True)
    names = {*now.by(QUEUE_MESSAGES, "queue"), *visible}
    rates = [
        QueueRate(
            queue=name or "(others)",
            sent=round(actions["sent"].get(name, 0) / seconds, 1),
            received=round(actions["received"].get(name, 0) / seconds, 1),
            deleted=round(actions["deleted"].get(name, 0) / seconds, 1),
            visible=round(visible.get(name, 0)),
            in_flight=round(in_flight.get(name, 0)),
            oldest_s=round(oldest.get(name, 0)),
        )
        for name in names
    ]
    return sorted(rates, key=lambda one: (-(one.sent + one.received + one.deleted), -one.visible, one.queue))


def _change(before: MetricsPage, now: MetricsPage, action: str) -> dict[str, float]:
    """The increase by queue. A counter that decreased restarted with its process."""
    former = before.by(QUEUE_MESSAGES, "queue", action=action)
    present = now.by(QUEUE_MESSAGES, "queue", action=action)
    return {name: value - was if value >= (was := former.get(name, 0)) else value for name, value in present.items()}


class _Event(msgspec.Struct, frozen=True):
    event: str
    topic: str = ""
    endpoint: str = ""
    protocol: str = ""
    outcome: str = ""


class EventTail:
    """Reads the events that processes on this machine wrote since the last read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, int] = {}  # by name without suffix: a segment is renamed when it is sealed
        self._decode = msgspec.json.Decoder(_Event).decode
        for path in self._segments():
            self._read[_name(path)] = _size(path)

    def look(self) -> EventCounts:
        counts = EventCounts()
        for path in self._segments():
            for line in self._new_lines(path):
                try:
                    counts.add(self._decode(line))
                except UNREADABLE:
                    continue
        return counts

    def _segments(self) -> Iterable[Path]:
        """Return the segments of the newest two folders; older ones are sealed and read."""
        folders = sorted(self._directory.glob("*/*"))[-2:]
        return [path for folder in folders for path in folder.iterdir() if path.name.endswith((OPEN, SEALED))]

    def _new_lines(self, path: Path) -> list[bytes]:
        name = _name(path)
        at = self._read.get(name, 0)
        try:
            with path.open("rb") as file:
                file.seek(at)
                read = file.read(READ_BYTES_MAX)
        except FileNotFoundError:  # sealed meanwhile: the next read finds its new name
            return []
        whole = read[: read.rfind(b"\n") + 1]
        self._read[name] = at + len(whole)
        return whole.splitlines()


class EventCounts:
    def __init__(self) -> None:
        self._topics: dict[str, Counter[str]] = {}
        self._endpoints: dict[str, Counter[str]] = {}

    def add(self, event: _Event) -> None:
        kind = FAILED if event.event == ATTEMPTED and event.outcome == FAILED else event.event
        if kind not in (PUBLISHED, DELIVERED, FAILED):
            return
        if event.topic:
            self._topics.setdefault(event.topic, Counter())[kind] += 1
        if event.endpoint:
            self._endpoints.setdefault(f"{event.protocol} {event.endpoint}", Counter())[kind] += 1

    def topics(self, seconds: float) -> list[TopicRate]:
        rates = [
            TopicRate(name, *(round(of[kind] / seconds, 1) for kind in (PUBLISHED, DELIVERED, FAILED)))
            for name, of in self._topics.items()
        ]
        return sorted(rates, key=lambda one: (-(one.published + one.delivered + one.failed), one.topic))

    def endpoints(self, seconds: float) -> list[EndpointRate]:
        rates = [
            EndpointRate(name, *(round(of[kind] / seconds, 1) for kind in (DELIVERED, FAILED)))
            for name, of in self._endpoints.items()
        ]
        return sorted(rates, key=lambda one: (-(one.delivered + one.failed), one.endpoint))


def _name(path: Path) -> str:
    return path.name.removesuffix(OPEN).removesuffix(SEALED)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
