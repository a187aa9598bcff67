"""Gaps in the data of a site that was away while the other one accepted writes, and whether repairs closed them: values
and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

GRACE_MS = 4 * 3_600_000
"""How long deleted messages are remembered: `gc_grace_seconds` of their tables."""
HINTED_MS = 3 * 3_600_000
"""How long nodes keep what another one missed, to send it later: `max_hint_window` of Cassandra's default."""
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
"""The options of a repair that compares everything with all replicas, and fails if one of them is away."""

TokenRange = tuple[int, int]
"""The tokens after the first one up to the second one. It wraps around if the second one is not greater."""


class SiteGap(NamedTuple):
    """A time in which writes were accepted without a site, by Cassandra's clock."""

    since_ms: int
    until_ms: int
    """The end of the last write that may be missing. The gap may still grow if that is in the future."""

    def __str__(self) -> str:
        return f"from {utc_text(self.since_ms)} to {utc_text(self.until_ms)} UTC"


class GapRepair(NamedTuple):
    """A repair, as Cassandra recorded it."""

    tables: frozenset[str]
    ranges: tuple[TokenRange, ...]
    """The token ranges that the repair completed."""


def span_of(gaps: Iterable[SiteGap]) -> SiteGap:
    """From the first missing write to the last one."""
    sinces, untils = zip(*gaps, strict=True)
    return SiteGap(min(sinces), max(untils))


def repairable_until_ms(gaps: Sequence[SiteGap]) -> float:
    """A repair that ends later may bring back many deleted messages: their deletes are forgotten by then. Deletes of an
    absence that hints cover were sent later, so its repair may come at any time."""
    if sum(gap.until_ms - gap.since_ms for gap in gaps) <= HINTED_MS:
        return math.inf
    return span_of(gaps).since_ms + GRACE_MS


def is_whole_repair(options: Mapping[str, str]) -> bool:
    """Whether a repair with these options compares all data of its ranges with all replicas."""
    return all(options.get(name, wanted) == wanted for name, wanted in WHOLE_REPAIR.items())


def read_ranges(texts: Iterable[str]) -> tuple[TokenRange, ...]:
    """Ranges from Cassandra's text, `(-42,17]`."""
    return tuple([(int(left), int(right)) for left, right in (text.strip("(]").split(",") for text in texts)])


def unrepaired(tables: Iterable[str], repairs: Iterable[GapRepair]) -> list[str]:
    """The tables of which the repairs leave a part out."""
    ranges: dict[str, list[TokenRange]] = {table: [] for table in tables}
    for repair in repairs:
        for table in repair.tables & ranges.keys():
            ranges[table] += repair.ranges
    return sorted(table for table, found in ranges.items() if not covers_ring(found))


def covers_ring(ranges: Iterable[TokenRange]) -> bool:
    """Whether each token is in one of the ranges. No key has the lowest one."""
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
