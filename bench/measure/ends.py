"""How every accepted message ended: delivered, dead-lettered or dropped and counted. Without an end it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from bench.load.endpoints import Arrival
from cns_common.events.files import OPEN, SEALED

DROPPED = b'"notification.dropped"'


class Accepted(msgspec.Struct, frozen=True):
    """A publish that was acknowledged."""

    message_id: str
    topic: int  # and the one endpoint it has


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Each accepted message counts once, as the first of these that it is."""

    accepted: int
    delivered: int
    dead_lettered: int
    dropped: int
    lost: dict[int, int]  # by topic
    repeated: int  # deliveries more than one a message, and ends beside a delivery
    strayed: int  # deliveries that are another topic's, or that nobody published

    @property
    def whole(self) -> bool:
        return not self.lost and not self.strayed


class _Drop(msgspec.Struct):
    message_id: str


def ends_of(
    accepted: Mapping[int, Accepted], arrivals: Iterable[Arrival], dead_letters: Iterable[int], drops: Iterable[str]
) -> Ends:
    """Messages by their numbers; dead letters are numbers, drops message ids."""
    deliveries = Counter((arrival.number, arrival.endpoint) for arrival in arrivals)
    right = {number: n for (number, topic), n in deliveries.items() if _is_of(accepted.get(number), topic)}
    buried, dropped_ids = Counter(dead_letters), Counter(drops)
    found: Counter[str] = Counter()
    lost: Counter[int] = Counter()
    for number, one in accepted.items():
        ends = {"delivered": right.get(number, 0), "buried": buried[number], "dropped": dropped_ids[one.message_id]}
        first = next((end for end, n in ends.items() if n), "")
        found[first] += 1
        found["repeated"] += max(sum(ends.values()) - 1, 0)
        if not first:
            lost[one.topic] += 1
    return Ends(
        accepted=len(accepted),
        delivered=found["delivered"],
        dead_lettered=found["buried"],
        dropped=found["dropped"],
        lost=dict(lost),
        repeated=found["repeated"],
        strayed=deliveries.total() - sum(right.values()),
    )


def _is_of(one: Accepted | None, topic: int) -> bool:
    return one is not None and one.topic == topic


def dropped_in(events: Path) -> list[str]:
    """The message ids of all drops that were told of, each as often as it was."""
    segments = [path for path in events.rglob("*") if path.name.endswith((OPEN, SEALED))]
    return [
        msgspec.json.decode(line, type=_Drop).message_id
        for segment in segments
        for line in segment.read_bytes().splitlines()
        if DROPPED in line
    ]
