"""The health document of the sample report's day, made by hand."""

from __future__ import annotations

from cns_common.durations import DAY_MS, HOUR_MS
from cns_pipeline.health.document import EndpointTimeline, Health, HourOfDay, Incident
from tests.pipeline.reports.sample_report import HOST, SLOW_HOST, START_MS

OUTAGE = Incident(
    endpoint=HOST,
    state="failing",
    from_ms=START_MS + 14 * HOUR_MS,
    until_ms=START_MS + 15 * HOUR_MS + 1_200_000,
    attempts=813,
    failed=350,
    p50_ms=11,
    expected_share=0.002,
    expected_p50_ms=10,
    cause="status",
    status=503,
    reason="Service Unavailable <maintenance>",
)
SLOWNESS = Incident(
    endpoint=SLOW_HOST,
    state="slow",
    from_ms=START_MS + 9 * HOUR_MS,
    until_ms=START_MS + 11 * HOUR_MS,
    attempts=80,
    failed=0,
    p50_ms=2_100,
    expected_share=0.0,
    expected_p50_ms=140,
    cause=None,
    status=None,
    reason=None,
)
SAMPLE_HEALTH = Health(
    since_ms=START_MS,
    until_ms=START_MS + DAY_MS,
    made_at_ms=START_MS + DAY_MS + HOUR_MS,
    slot_ms=600_000,
    history_days=21,
    endpoints=3,
    incidents=(OUTAGE, SLOWNESS),
    incidents_left_out=0,
    timelines=(
        EndpointTimeline(
            endpoint=HOST,
            attempts=900,
            failed=350,
            shares=tuple([0.43 if 84 <= at < 92 else None if at % 17 == 0 else 0.0 for at in range(144)]),
        ),
    ),
    by_hour=tuple(
        [
            HourOfDay(kind=kind, measure=measure, hour=hour, per_second=rate * (1 + abs(12 - hour)) / 13)
            for kind, measure, rate in (
                ("topic", "accepted", 3.0),
                ("endpoint", "delivered", 8.0),
                ("endpoint", "failed", 0.02),
                ("queue", "sent", 2.0),
            )
            for hour in range(24)
        ]
    ),
    by_hour_days=21,
)
