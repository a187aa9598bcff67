"""The outcome of every accepted message: delivered, dead-lettered, or dropped with an event. Without one it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from cns_common.events.files import OPEN, SEALED
from lab.load.endpoints import Arrival

DROPPED = b'"notification.dropped"'


class AcceptedPublish(msgspec.Struct, frozen=True):
    """An acknowledged publish."""

    message_id: str
    topic: int  # number of the topic, and of its only endpoint


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Each accepted message counts once, under the first outcome that applies."""

    accepted: int
    delivered: int
    dead_lettered: int
    dropped: int
    lost: dict[int, int]  # by topic
    repeated: int  # outcomes beyond the first of a message
    misdelivered: int  # deliveries of another topic's message, or of an unknown one

    @property
    def complete(self) -> bool:
        return not self.lost and not self.misdelivered


class _Drop(msgspec.Struct):
    message_id: str


def outcomes_of(
    accepted: Mapping[int, AcceptedPublish],
    arrivals: Iterable[Arrival],
    dead_letters: Iterable[int],
    drops: Iterable[str],
) -> Outcomes:
    """`accepted` is by message number; dead letters are numbers, drops are message ids."""
    deliveries = Counter((arrival.number, arrival.endpoint) for arrival in arrivals)
    right = {number: n for (number, topic), n in deliveries.items() if _is_of(accepted.get(number), topic)}
    dead_lettered, dropped_ids = Counter(dead_letters), Counter(drops)
    found: Counter[str] = Counter()
    lost: Counter[int] = Counter()
    for number, one in accepted.items():
        outcomes = {
            "delivered": right.get(number, 0),
            "dead_lettered": dead_lettered[number],
            "dropped": dropped_ids[one.message_id],
        }
        first = next((end for end, n in outcomes.items() if n), "")
        found[first] += 1
        found["repeated"] += max(sum(outcomes.values()) - 1, 0)
        if not first:
            lost[one.topic] += 1
    return Outcomes(
        accepted=len(accepted),
        delivered=found["delivered"],
        dead_lettered=found["dead_lettered"],
        dropped=found["dropped"],
        lost=dict(lost),
        repeated=found["repeated"],
        misdelivered=deliveries.total() - sum(right.values()),
    )


def _is_of(one: AcceptedPublish | None, topic: int) -> bool:
    return one is not None and one.topic == topic


def dropped_in(events: Path) -> list[str]:
    """The message id of each drop event in the event files of a directory."""
    segments = [path for path in events.rglob("*") if path.name.endswith((OPEN, SEALED))]
    return [
        msgspec.json.decode(line, type=_Drop).message_id
        for segment in segments
        for line in segment.read_bytes().splitlines()
        if DROPPED in line
    ]
