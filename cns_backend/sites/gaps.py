"""Gaps in the data of a site that was unreachable while the other one accepted writes, and whether repairs closed them:
no I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

GRACE_MS = 4 * 3_600_000
"""`gc_grace_seconds` of the tables: Cassandra keeps tombstones for this time."""
HINTED_MS = 3 * 3_600_000
"""Nodes keep writes that another node missed for this time, to send them later: `max_hint_window` by default."""
TOKEN_MIN, TOKEN_MAX = -(2**63), 2**63 - 1
"""The lowest and the highest token of Cassandra's Murmur3Partitioner."""
WHOLE_REPAIR = {
    "incremental": "false",
    "dataCenters": "",
    "hosts": "",
    "forceRepair": "false",
    "pullRepair": "false",
    "previewKind": "NONE",
    "paxosOnly": "false",
}
"""The options of a repair that compares all data with all replicas, and fails if a replica is down."""

TokenRange = tuple[int, int]
"""The tokens in (first, second]. The range wraps around if the second is not greater."""


class SiteGap(NamedTuple):
    """A period, by Cassandra's clock, in which writes were accepted that a site may not have."""

    since_ms: int
    until_ms: int
    """The time of the last write that may be missing; if it is in the future, the gap may still grow."""

    def __str__(self) -> str:
        return f"from {utc_text(self.since_ms)} to {utc_text(self.until_ms)} UTC"


class GapRepair(NamedTuple):
    """A repair, as Cassandra recorded it."""

    tables: frozenset[str]
    ranges: tuple[TokenRange, ...]
    """The token ranges that the repair completed."""


def span_of(gaps: Iterable[SiteGap]) -> SiteGap:
    """The period from the first gap to the end of the last."""
    sinces, untils = zip(*gaps, strict=True)
    return SiteGap(min(sinces), max(untils))


def repairable_until_ms(gaps: Sequence[SiteGap]) -> float:
    """The end of the time for a repair: after it, tombstones are gone, and a repair may bring deleted messages back.
    There is no end for gaps that hints cover: the site got their deletes as hints."""
    if sum(gap.until_ms - gap.since_ms for gap in gaps) <= HINTED_MS:
        return math.inf
    return span_of(gaps).since_ms + GRACE_MS


def is_whole_repair(options: Mapping[str, str]) -> bool:
    """Whether a repair with these options compares all data of its ranges with all replicas."""
    return all(options.get(name, wanted) == wanted for name, wanted in WHOLE_REPAIR.items())


def read_ranges(texts: Iterable[str]) -> tuple[TokenRange, ...]:
    """Parse Cassandra's text of ranges, `(-42,17]`."""
    return tuple([(int(left), int(right)) for left, right in (text.strip("(]").split(",") for text in texts)])


def unrepaired(tables: Iterable[str], repairs: Iterable[GapRepair]) -> list[str]:
    """The tables that the repairs do not cover completely."""
    ranges: dict[str, list[TokenRange]] = {table: [] for table in tables}
    for repair in repairs:
        for table in repair.tables & ranges.keys():
            ranges[table] += repair.ranges
    return sorted(table for table, found in ranges.items() if not covers_ring(found))


def covers_ring(ranges: Iterable[TokenRange]) -> bool:
    """Whether the ranges cover every token. No key has the lowest token."""
    covered = TOKEN_MIN
    for left, right in sorted(_unwrapped(ranges)):
        if left > covered:
            return False
        covered = max(covered, right)
    return covered >= TOKEN_MAX


def _unwrapped(ranges: Iterable[TokenRange]) -> Iterable[TokenRange]:
    for left, right in ranges:
        if left < right:
            yield left, right
        else:
            yield left, TOKEN_MAX
            yield TOKEN_MIN, right


def utc_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}"
