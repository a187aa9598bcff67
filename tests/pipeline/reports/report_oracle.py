"""The report of a list of events in plain Python, one question after the other: what Spark's must equal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeGuard

from cns_common.durations import HOUR_MS
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    DeliveryFiltered,
    Event,
    NotificationDropped,
    NotificationEvent,
    NotificationMatched,
    PublishAccepted,
)
from cns_pipeline.period import WEEK_MS, Period
from cns_pipeline.reports.document import Figures, Row

TargetEvent = DeliveryAttempted | DeliveryDelivered | DeliveryDeadLettered | NotificationDropped
BY_TARGET = ("subscriptions", "endpoints", "protocols")
Key = tuple[str, str, str, str]
"""Name, topic, protocol and endpoint of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedEvent:
    boot: str
    sequence: int
    event: Event


def rounded(ms: int) -> int:
    """Eight significant bits."""
    width = 1
    while ms // width >= 256:
        width *= 2
    return ms // width * width


def nearest_rank(values: Sequence[int], permille: int) -> int | None:
    """The least value that so many of the sorted values do not exceed."""
    return next((value for at, value in enumerate(values, 1) if at * 1000 >= permille * len(values)), None)


def target_of(event: TargetEvent) -> str:
    if event.subscription:
        return event.subscription
    return "" if event.topic else f"direct {event.protocol} {event.endpoint}"


def account_of(event: TargetEvent | PublishAccepted | NotificationMatched | DeliveryFiltered) -> str:
    if topic_of(event):
        return (topic_of(event).split(":") + [""] * 5)[4]
    return "" if isinstance(event, NotificationMatched | DeliveryFiltered) else event.account


def topic_of(event: TargetEvent | PublishAccepted | NotificationMatched | DeliveryFiltered) -> str:
    return "" if ":endpoint/" in event.topic else event.topic


@dataclass
class Tally:
    """One cell of the account: counts by name, and the times of first deliveries."""

    counts: Counter[str] = field(default_factory=Counter)
    times: list[int] = field(default_factory=list)

    def figures(self, *, of_target: bool) -> Figures:
        counts, times = self.counts, sorted(self.times)
        ended = counts["delivered"] + counts["dead_lettered"] + counts["dropped"]
        names = [name for name in Figures.__struct_fields__ if name != "success_share" and not name.endswith("_ms")]
        known = {name: counts[name] for name in names}
        if of_target:
            for name in ("accepted", "accepted_bytes", "matched", "filtered", "pending", "replay_matched"):
                del known[name]
        short = [rounded(ms) for ms in times]
        return Figures(
            **known,
            success_share=counts["delivered"] / ended if ended else None,
            p50_ms=nearest_rank(short, 500),
            p90_ms=nearest_rank(short, 900),
            p99_ms=nearest_rank(short, 990),
            p999_ms=nearest_rank(short, 999),
            max_ms=times[-1] if times else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The row of a count."""

    at_ms: int
    topic: str
    account: str
    target: str = ""


class Oracle:
    """The account of one span of the events: its counts, and the ends of each (message, target)."""

    def __init__(self, told: Iterable[NumberedEvent], period: Period, everything: Iterable[NumberedEvent]) -> None:
        self.numbered = [one for one in told if period.since_ms <= one.event.at_ms < period.until_ms]
        self.events = [one.event for one in self.numbered]
        self.targets: dict[str, tuple[str, str, str]] = {}
        for one in everything:
            event = one.event
            if isinstance(event, TargetEvent) and event.message_type == "Notification" and target_of(event):
                before = self.targets.get(target_of(event), ("", "", ""))
                named = (event.subscription, event.endpoint, event.protocol)
                self.targets[target_of(event)] = (
                    max(before[0], named[0]),
                    max(before[1], named[1]),
                    max(before[2], named[2]),
                )
        self.tables: dict[str, dict[Key, Tally]] = defaultdict(lambda: defaultdict(Tally))
        self.ends: dict[tuple[str, str], dict[str, list[TargetEvent]]] = defaultdict(lambda: defaultdict(list))
        self._count()

    # -- counts -------------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        for event in self.events:
            if (
                isinstance(event, NotificationEvent)
                and getattr(event, "message_type", "Notification") == "Notification"
            ):
                self._add(self._place(event))  # adds a row, even one with counts of 0
            if isinstance(event, PublishAccepted):
                self._add(self._place(event), accepted=1, accepted_bytes=event.size_bytes, matched=event.matched)
            elif isinstance(event, TargetEvent) and event.message_type == "Notification":
                self._count_of_target(event)
        for match in self.matches():
            self._add(self._place(match), **{"replay_matched" if match.replayed else "matched": match.matched})
        latest: dict[str, DeliveryFiltered] = {}
        for event in self.events:
            if isinstance(event, DeliveryFiltered):
                known = latest.get(event.message_id)
                latest[event.message_id] = max(
                    [event, *([known] if known else [])], key=lambda e: (e.at_ms, e.filtered)
                )
        for filtered in latest.values():
            self._add(self._place(filtered), filtered=filtered.filtered)
        self._count_ends()
        self._count_pending()

    def matches(self) -> list[NotificationMatched]:
        """The latest of each part."""
        latest: dict[tuple[str, str, bool], NotificationMatched] = {}
        for event in self.events:
            if isinstance(event, NotificationMatched):
                key = (event.message_id, event.part, event.replayed)
                known = latest.get(key)
                latest[key] = max([event, *([known] if known else [])], key=lambda e: (e.at_ms, e.matched))
        return list(latest.values())

    def _count_of_target(self, event: TargetEvent) -> None:
        place = self._place(event)
        prefix = "replay_" if event.replayed else ""
        if isinstance(event, DeliveryAttempted):
            failed = event.outcome == "failed"
            self._add(place, **{f"{prefix}attempts": 1, f"{prefix}attempts_failed": int(failed)})
        elif isinstance(event, DeliveryDelivered):
            self._add(place, delivered_bytes=event.size_bytes, replayed=int(event.replayed))
        elif isinstance(event, DeliveryDeadLettered):
            self._add(place, replay_dead_lettered=int(event.replayed))
        elif event.replayed:
            self._add(place, replay_dropped=event.subscriptions)
        elif not place.target:
            self._add(place, dropped=event.subscriptions)
        if isinstance(event, NotificationDropped) and not place.target:
            self._add(place, fanouts_dropped=int(event.subscriptions == 0))
        is_end = not isinstance(event, DeliveryAttempted) or event.outcome == "failed"
        if place.target and not event.replayed and is_end:
            self.ends[(event.message_id, place.target)][type(event).__name__].append(event)

    def _count_ends(self) -> None:
        for ends in self.ends.values():
            delivered = sorted(ends["DeliveryDelivered"], key=lambda event: event.at_ms)
            if delivered:
                first = delivered[0]
                assert isinstance(first, DeliveryDelivered)
                self._add(self._place(first), delivered=1, duplicates=len(delivered) - 1)
                self._time(self._place(first), max(first.since_publish_ms, 0))
            for kind, name in (("DeliveryDeadLettered", "dead_lettered"), ("NotificationDropped", "dropped")):
                if ends[kind]:
                    self._add(self._place(min(ends[kind], key=lambda event: event.at_ms)), **{name: 1})
            if {kind for kind, events in ends.items() if events} == {"DeliveryAttempted"}:
                self._add(self._place(min(ends["DeliveryAttempted"], key=lambda event: event.at_ms)), retrying=1)

    def _count_pending(self) -> None:
        ended = Counter([message for (message, _), kinds in self.ends.items() if any(map(kinds.get, _ENDED))])
        matched = Counter[str]()
        for match in self.matches():
            matched[match.message_id] += 0 if match.replayed else match.matched
        for event in self.events:
            if isinstance(event, PublishAccepted):
                pending = event.matched + matched[event.message_id] - ended[event.message_id]
                self._add(self._place(event), pending=max(pending, 0))

    def _place(self, event: TargetEvent | PublishAccepted | NotificationMatched | DeliveryFiltered) -> Place:
        target = target_of(event) if isinstance(event, TargetEvent) else ""
        return Place(at_ms=event.at_ms, topic=topic_of(event), account=account_of(event), target=target)

    def _tallies(self, place: Place) -> list[Tally]:
        subscription, endpoint, protocol = self.targets.get(place.target, ("", "", ""))
        hour = str(place.at_ms // HOUR_MS * HOUR_MS)
        keys: dict[str, Key] = {
            "totals": ("", "", "", ""),
            "topics": (place.topic, "", "", ""),
            "accounts": (place.account, "", "", ""),
            "days": (day_of(place.at_ms), "", "", ""),
            "hours": (hour, "", "", ""),
        }
        if subscription:
            keys["subscriptions"] = (subscription, place.topic, protocol, endpoint)
        if place.target:
            keys["endpoints"] = (endpoint, "", protocol, "")
            keys["protocols"] = (protocol, "", "", "")
        return [self.tables[table][key] for table, key in keys.items()]

    def _add(self, place: Place, **counts: int) -> None:
        for tally in self._tallies(place):
            tally.counts.update(counts)

    def _time(self, place: Place, ms: int) -> None:
        for tally in self._tallies(place):
            tally.times.append(ms)


_ENDED = ("DeliveryDelivered", "DeliveryDeadLettered", "NotificationDropped")


def is_of_notification(event: Event) -> TypeGuard[NotificationEvent]:
    return isinstance(event, NotificationEvent) and getattr(event, "message_type", "Notification") == "Notification"


def day_of(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


def table_rows(table: str, present: Oracle, before: Oracle | None) -> tuple[Row, ...]:
    """The rows of a table of figures, most attempts first."""
    of_target = table in BY_TARGET
    earlier = before.tables[table] if before else {}
    rows = [
        Row(
            name=key[0],
            topic=key[1],
            protocol=key[2],
            endpoint=key[3],
            figures=present.tables[table].get(key, Tally()).figures(of_target=of_target),
            before=earlier[key].figures(of_target=of_target) if key in earlier else None,
        )
        for key in {**present.tables[table], **earlier}
    ]
    order: Callable[[Row], tuple[int, int, str, str, str, str]] = lambda row: (  # noqa: E731  # of these rows only
        -row.figures.attempts,
        -(row.figures.accepted or 0),
        row.name,
        row.topic,
        row.protocol,
        row.endpoint,
    )
    return tuple(sorted(rows, key=order))


def oracles(told: Sequence[NumberedEvent], period: Period) -> tuple[Oracle, Oracle | None]:
    """Figures of the period, and of the week before."""
    before = period.earlier(WEEK_MS)
    spans = [period, *([before] if before else [])]
    both = [one for one in told if any(span.since_ms <= one.event.at_ms < span.until_ms for span in spans)]
    return Oracle(told, period, both), None if before is None else Oracle(told, before, both)
