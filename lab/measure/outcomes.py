"""The outcome of every accepted message: delivered, dead-lettered, or dropped with an event. Without one it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from cns_common.events.files import OPEN, SEALED
from lab.load.endpoints import Arrival

DROPPED = b'"notification.dropped"'


class AcceptedPublish(NamedTuple):
    """An acknowledged publish."""

    message_id: str
    topic: int  # number of the topic, and of its only endpoint


class Outcomes(NamedTuple):
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


def outcomes_of(
    accepted: Mapping[int, AcceptedPublish],
    arrivals: Iterable[Arrival],
    dead_letters: Iterable[int],
    drops: Iterable[str],
) -> Outcomes:
    """`accepted` is by message number; dead letters are numbers, drops are message ids."""
    deliveries = Counter((arrival.number, arrival.endpoint) for arrival in arrivals)
    topics = {number: one.topic for number, one in accepted.items()}
    right = {number: n for (number, topic), n in deliveries.items() if topics.get(number) == topic}
    dead_lettered, dropped_ids = Counter(dead_letters), Counter(drops)
    found, lost = Counter[int](), Counter[int]()
    repeated = 0
    for number, one in accepted.items():
        ends = (right.get(number, 0), dead_lettered[number], dropped_ids[one.message_id])
        if not any(ends):
            lost[one.topic] += 1
            continue
        found[next(place for place, n in enumerate(ends) if n)] += 1
        repeated += sum(ends) - 1
    misdelivered = deliveries.total() - sum(right.values())
    return Outcomes(len(accepted), found[0], found[1], found[2], dict(lost), repeated, misdelivered)


def dropped_in(events: Path) -> list[str]:
    """The message id of each drop event in the event files of a directory."""
    segments = [path for path in events.rglob("*") if path.name.endswith((OPEN, SEALED))]
    lines = [line for segment in segments for line in segment.read_bytes().splitlines() if DROPPED in line]
    return [msgspec.json.decode(line)["message_id"] for line in lines]
