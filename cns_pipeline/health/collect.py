"""Judges the endpoints of a period, and builds the documents for people and for workers."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cns_common.durations import DAY_MS
from cns_common.endpoint_health import UNHEALTHY_MAX, EndpointHealth, UnhealthyEndpoint
from cns_pipeline.health.document import EndpointTimeline, Health, HourOfDay, Incident
from cns_pipeline.period import Period
from cns_pipeline.transforms.health.baseline import baselines
from cns_pipeline.transforms.health.incidents import incidents
from cns_pipeline.transforms.health.judgement import FAILING, HEALTHY, judged
from cns_pipeline.transforms.health.slots import endpoint_slots
from cns_pipeline.transforms.health.time_of_day import all_by_hour

INCIDENTS_MAX = 50
COURSES_MAX = 30
SLOTS_MAX = 150
OBSERVED_MS = 3_600_000
"""The last part of a period: it tells whether an endpoint is healthy now."""
_MINUTE_MS = 60_000
_SLOTS_MS = (10 * _MINUTE_MS, 30 * _MINUTE_MS, 60 * _MINUTE_MS, 180 * _MINUTE_MS, 360 * _MINUTE_MS, DAY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The daily rows before the period, and the traffic by time of day."""

    hours: DataFrame
    hours_days: int
    by_time_of_day: DataFrame
    by_time_of_day_days: int


def slot_length_ms(period: Period) -> int:
    """The length of a slot: a period has at most about SLOTS_MAX slots, each of ten minutes or more."""
    return next((slot for slot in _SLOTS_MS if period.span_ms <= slot * SLOTS_MAX), _SLOTS_MS[-1])


def collect_health(events: DataFrame, history: History, period: Period, made_at_ms: int) -> Health:
    """Judge the endpoints in the events of a period that has a beginning and an end."""
    slot_ms = slot_length_ms(period)
    slots = endpoint_slots(events, slot_ms).cache()
    per_endpoint = _per_endpoint(slots).cache()
    found = incidents(judged(slots, baselines(history.hours)), slot_ms)
    rows = found.orderBy(F.desc("failed"), F.desc("attempts"), "endpoint", "from_ms").take(INCIDENTS_MAX + 1)
    left_out = found.count() - INCIDENTS_MAX if len(rows) > INCIDENTS_MAX else 0
    health = Health(
        since_ms=period.since_ms,
        until_ms=period.until_ms,
        made_at_ms=made_at_ms,
        slot_ms=slot_ms,
        history_days=history.hours_days,
        endpoints=per_endpoint.count(),
        incidents=tuple([Incident(**row.asDict()) for row in rows[:INCIDENTS_MAX]]),
        incidents_left_out=left_out,
        timelines=_timelines(per_endpoint, period, slot_ms),
        by_hour=tuple([HourOfDay(**row.asDict()) for row in all_by_hour(history.by_time_of_day).collect()]),
        by_hour_days=history.by_time_of_day_days,
    )
    per_endpoint.unpersist()
    slots.unpersist()
    return health


def judged_now(events: DataFrame, history: History, until_ms: int) -> DataFrame:
    """The states of endpoints in the last OBSERVED_MS before `until_ms`."""
    since_ms = until_ms - OBSERVED_MS
    latest = events.where((F.col("at_ms") >= since_ms) & (F.col("at_ms") < until_ms))
    return judged(endpoint_slots(latest, OBSERVED_MS, since_ms), baselines(history.hours))


def collect_endpoint_health(now: DataFrame, until_ms: int, made_at_ms: int) -> EndpointHealth:
    """Make the hints for workers from the frame of `judged_now`."""
    unhealthy = now.where(F.col("state") != HEALTHY).orderBy(F.desc("failed"), F.desc("attempts"), "endpoint")
    return EndpointHealth(
        made_at_ms=made_at_ms,
        observed_from_ms=until_ms - OBSERVED_MS,
        observed_until_ms=until_ms,
        observed=now.count(),
        unhealthy=tuple([_unhealthy(row) for row in unhealthy.take(UNHEALTHY_MAX)]),
    )


def _unhealthy(row: Row) -> UnhealthyEndpoint:
    return UnhealthyEndpoint(
        endpoint=row["endpoint"],
        state=row["state"],
        since_ms=row["first_failed_ms"] if row["state"] == FAILING else row["slot_ms"],
        attempts=row["attempts"],
        failed=row["failed"],
        expected_share=row["expected_share"],
        p50_ms=row["p50_ms"],
        expected_p50_ms=row["expected_p50_ms"],
        cause=row["cause"] or "",
        status=row["status"] or 0,
    )


def _per_endpoint(slots: DataFrame) -> DataFrame:
    """Attempts, failures and the share of failures in each slot, by endpoint."""
    course = F.map_from_entries(F.collect_list(F.struct("slot_ms", F.col("failed") / F.col("attempts"))))
    return (
        slots.groupBy("endpoint")
        .agg(F.sum("attempts").alias("attempts"), F.sum("failed").alias("failed"), course.alias("shares"))
        .select("endpoint", "attempts", "failed", "shares")
    )


def _timelines(per_endpoint: DataFrame, period: Period, slot_ms: int) -> tuple[EndpointTimeline, ...]:
    """Return the share of failures in each slot, for the endpoints with the most failures."""
    rows = per_endpoint.where(F.col("failed") > 0).orderBy(F.desc("failed"), "endpoint").take(COURSES_MAX)
    starts_ms = range(period.since_ms - period.since_ms % slot_ms, period.until_ms, slot_ms)
    return tuple(
        [
            EndpointTimeline(
                endpoint=row["endpoint"],
                attempts=row["attempts"],
                failed=row["failed"],
                shares=tuple([row["shares"].get(start_ms) for start_ms in starts_ms]),
            )
            for row in rows
        ]
    )
