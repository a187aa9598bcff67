"""The figures of a report by hour or day, with those of buckets without events."""

from __future__ import annotations

from collections.abc import Mapping

from cns_common.durations import DAY_MS, HOUR_MS
from cns_pipeline.period import Period
from cns_pipeline.reports.document import Figures, LatencyBin, TimeBucket

BY_DAY_FROM_MS = 14 * DAY_MS
"""A longer period has one bucket per day."""
BUCKETS_MAX = 1_000
"""The limit of buckets; a longer period shows only the last ones that have events."""
NOTHING = Figures(accepted=0, accepted_bytes=0, matched=0, filtered=0, pending=0, replay_matched=0)


def bucket_period(period: Period, first_ms: int, last_ms: int, made_at_ms: int) -> Period:
    """The period from its start or first event to its end or now, but not before its last event."""
    since_ms = period.since_ms or first_ms
    return Period(since_ms, max(min(period.until_ms, made_at_ms), last_ms + 1))


def bucket_span_ms(period: Period) -> int:
    """An hour or a day."""
    return DAY_MS if period.span_ms > BY_DAY_FROM_MS else HOUR_MS


def buckets(figures: Mapping[int, Figures], period: Period, span_ms: int) -> list[TimeBucket]:
    """`figures` by start. Every bucket of the period is included, unless there are too many."""
    first, last = period.since_ms // span_ms, (period.until_ms - 1) // span_ms
    if last - first < BUCKETS_MAX:
        starts = [number * span_ms for number in range(first, last + 1)]
    else:
        starts = sorted(figures)[-BUCKETS_MAX:]
    return [TimeBucket(start_ms=start, span_ms=span_ms, figures=figures.get(start, NOTHING)) for start in starts]


def latency_bins(deliveries: Mapping[int, int]) -> list[LatencyBin]:
    """Bins that begin with 0–1 ms and double in width, up to the last one that has deliveries."""
    bins, from_ms, to_ms = [], 0, 1
    while deliveries and from_ms <= max(deliveries):
        bins.append(LatencyBin(from_ms=from_ms, to_ms=to_ms, deliveries=deliveries.get(from_ms, 0)))
        from_ms, to_ms = to_ms, to_ms * 2
    return bins
