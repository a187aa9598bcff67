"""Health of endpoints: slots of attempts, what their history lets expect, incidents, and traffic by time of day."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from random import Random
from statistics import median_low
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from cns_common.durations import DAY_MS, HOUR_MS
from cns_common.endpoint_health import FILE_NAME, UnhealthyEndpoint, read_endpoint_health
from cns_common.events.schema import DeliveryAttempted, Event, QueueCounted
from cns_pipeline.health.history import HOURS_SCHEMA, days_before, days_of, hours_table
from cns_pipeline.health.job import update_health
from cns_pipeline.ingest import ingest
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import Period
from cns_pipeline.transforms.health.baseline import baselines
from cns_pipeline.transforms.health.incidents import incidents
from cns_pipeline.transforms.health.judgement import judged
from cns_pipeline.transforms.health.slots import endpoint_slots
from cns_pipeline.transforms.health.time_of_day import all_by_hour, hourly_traffic, time_of_day
from tests.pipeline.audit.frames import frame_of_lines
from tests.pipeline.ingest.segments import AT_MS, event_line, publish, write_segment

SLOT_MS = 600_000
SLOT_COLUMNS = (
    "endpoint string, slot_ms bigint, attempts bigint, failed bigint, p50_ms bigint, first_failed_ms bigint, "
    "last_failed_ms bigint, cause string, status int, reason string"
)


def attempted(
    endpoint: str, at_ms: int, took_ms: int = 10, status: int = 200, cause: str = "", reason: str = ""
) -> DeliveryAttempted:
    return DeliveryAttempted(
        at_ms=at_ms,
        message_id="m",
        message_type="Notification",
        topic="t",
        subscription="s",
        protocol="http",
        attempt=1,
        phase="first",
        outcome="failed" if cause else "delivered",
        cause=cause,
        status=status,
        duration_ms=took_ms,
        reason=reason,
        endpoint=endpoint,
    )


def frame_of(spark: SparkSession, told: Sequence[Event]) -> DataFrame:
    return frame_of_lines(spark, [event_line("b", number, event) for number, event in enumerate(told, 1)])


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def hour_row(endpoint: str, hour: int, attempts: int, failed: int, p50_ms: int | None = 10) -> tuple[object, ...]:
    """An hour of history, `hour` hours before AT_MS."""
    return (endpoint, AT_MS - hour * HOUR_MS, attempts, failed, p50_ms, date(2024, 1, 1))


def slot_row(endpoint: str, attempts: int, failed: int, p50_ms: int | None = 10, slot: int = 0) -> tuple[object, ...]:
    at_ms = AT_MS + slot * SLOT_MS
    first, last = (at_ms + 1_000, at_ms + 599_000) if failed else (None, None)
    cause, status, reason = ("status", 503, "no") if failed else (None, None, None)
    return (endpoint, at_ms, attempts, failed, p50_ms, first, last, cause, status, reason)


def test_a_slot_counts_what_an_endpoint_did(spark: SparkSession) -> None:
    told: list[Event] = [
        *[attempted("a", AT_MS + took_ms, took_ms) for took_ms in range(1, 100)],
        attempted("a", AT_MS + 200, 9_000, 503, "status", "busy"),
        attempted("a", AT_MS + 300, 9_000, 0, "timeout"),
        attempted("a", AT_MS + 400, 9_000, 503, "status", "away"),
        attempted("a", AT_MS + SLOT_MS, 7),
        attempted("b", AT_MS - 1, 7),
        attempted("", AT_MS, 7),
        replace(attempted("a", AT_MS, 7, 503, "status"), message_type="SubscriptionConfirmation"),
        publish("a"),
    ]
    found = rows(endpoint_slots(frame_of(spark, told), SLOT_MS).orderBy("endpoint", "slot_ms"))
    assert [tuple(row.values()) for row in found] == [
        ("a", AT_MS, 102, 3, 50, AT_MS + 200, AT_MS + 400, "status", 503, "busy"),
        ("a", AT_MS + SLOT_MS, 1, 0, 7, None, None, None, None, None),
        ("b", AT_MS - SLOT_MS, 1, 0, 7, None, None, None, None, None),
    ]
    moved = rows(endpoint_slots(frame_of(spark, told), HOUR_MS, AT_MS - 1))
    assert {(row["endpoint"], row["slot_ms"], row["attempts"]) for row in moved} == {
        ("a", AT_MS - 1, 103),
        ("b", AT_MS - 1, 1),
    }


STEADY = [(100, 1, 10)] * 30
"""Thirty hours of history: attempts, failures, median of the answers in ms."""
JUDGED: dict[str, tuple[list[tuple[int, int, int]], tuple[int, int, int | None], str]] = {
    "as before": (STEADY, (100, 1, 10), "healthy"),
    "a bad minute": (STEADY, (100, 8, 10), "healthy"),
    "failing": (STEADY, (100, 43, 10), "failing"),
    "down, few attempts": (STEADY, (5, 5, None), "failing"),
    "down, too few attempts": (STEADY, (1, 1, None), "healthy"),
    "failing as ever": ([(100, 30, 10)] * 30, (100, 33, 10), "healthy"),
    "failing more than ever": ([(100, 10, 10)] * 30, (100, 60, 10), "failing"),
    "mostly failing as ever": ([(100, 90, 10)] * 30, (100, 90, 10), "failing"),
    "one bad night in its history": ([(100, 0, 10)] * 28 + [(100, 100, 9_000)] * 2, (100, 43, 10), "failing"),
    "unsteady": ([(100, failed, 10) for failed in (0, 10, 20, 30, 40) * 6], (100, 45, 10), "healthy"),
    "slow": (STEADY, (100, 1, 2_000), "slow"),
    "slower by a little": (STEADY, (100, 1, 90), "healthy"),
    "slow as ever": ([(100, 1, 6_000)] * 30, (100, 1, 7_000), "healthy"),
    "slow, few answers": (STEADY, (6, 2, 2_000), "healthy"),
    "failing and slow": (STEADY, (100, 50, 2_000), "failing"),
    "new": ([], (100, 1, 10), "healthy"),
    "new and failing": ([], (100, 30, 10), "failing"),
    "new and slow": ([], (100, 0, 6_000), "slow"),
    "new and slowish": ([], (100, 0, 4_000), "healthy"),
    "known by two hours only": ([(100, 40, 10)] * 2, (100, 40, 10), "failing"),
    "known by tiny hours only": ([(4, 2, 10)] * 30, (100, 30, 10), "failing"),
}


@pytest.mark.slice
def test_an_endpoint_is_judged_by_its_own_history(spark: SparkSession) -> None:
    history = [
        hour_row(name, hour, *figures) for name, case in JUDGED.items() for hour, figures in enumerate(case[0], 1)
    ]
    slots = [slot_row(name, *case[1]) for name, case in JUDGED.items()]
    found = judged(spark.createDataFrame(slots, SLOT_COLUMNS), baselines(spark.createDataFrame(history, HOURS_SCHEMA)))
    assert {row["endpoint"]: row["state"] for row in rows(found)} == {name: case[2] for name, case in JUDGED.items()}


def test_few_attempts_are_judged_by_the_hour_around(spark: SparkSession) -> None:
    thin = [slot_row("thin", 2, failed, slot=slot) for slot, failed in enumerate((0, 2, 2, 2, 2, 0, 1))]
    loud = [slot_row("loud", 100, 60 if slot == 2 else 0, slot=slot) for slot in range(7)]
    history = [hour_row("loud", hour, 100, 12) for hour in range(1, 24)]
    found = judged(
        spark.createDataFrame([*thin, *loud], SLOT_COLUMNS),
        baselines(spark.createDataFrame(history, HOURS_SCHEMA)),
    )
    states = {
        (row["endpoint"], (row["slot_ms"] - AT_MS) // SLOT_MS) for row in rows(found) if row["state"] == "failing"
    }
    assert states == {("thin", 1), ("thin", 2), ("thin", 3), ("thin", 4), ("thin", 6), ("loud", 2)}


def test_the_same_hour_counts_where_it_is_known(spark: SparkSession) -> None:
    """A backup at midnight slows an endpoint down each night: midnight is not slow, noon would be."""
    history = [hour_row("e", hour, 100, 0, 3_000 if hour % 24 == 0 else 10) for hour in range(1, 28 * 24)]
    slots = [slot_row("e", 100, 0, 3_000), slot_row("e", 100, 0, 3_000, slot=72)]
    found = judged(
        spark.createDataFrame(slots, SLOT_COLUMNS), baselines(spark.createDataFrame(history, HOURS_SCHEMA))
    ).orderBy("slot_ms")
    assert [(row["state"], row["expected_p50_ms"], row["history_hours"]) for row in rows(found)] == [
        ("healthy", 3_000, 3),
        ("slow", 10, 4),
    ]


@pytest.mark.extended
def test_baselines_equal_those_of_plain_python(spark: SparkSession) -> None:
    random = Random(20)
    history = [
        hour_row(f"e{number}", hour, attempts, random.randint(0, attempts), random.choice([None, *range(50)]))
        for number in range(100)
        for hour in random.sample(range(1, 600), random.randint(1, 60))
        for attempts in [random.randint(1, 12)]
    ]
    found = {
        (row["endpoint"], key): value.asDict()
        for row in rows(baselines(spark.createDataFrame(history, HOURS_SCHEMA)))
        for key, value in row["expected"].items()
    }
    assert found == oracle(history)


def oracle(history: Sequence[tuple[Any, ...]]) -> dict[tuple[str, str], dict[str, object]]:
    hours: dict[tuple[str, str], list[tuple[float, int | None]]] = {}
    for endpoint, at_ms, attempts, failed, p50_ms, _ in history:
        hour = at_ms // HOUR_MS
        for key in (f"week {hour % 168}", f"day {hour % 24}", "any") if attempts >= 5 else ():
            hours.setdefault((endpoint, key), []).append((failed / attempts, p50_ms))
    return {
        key: {
            "hours": len(those),
            **spread([share for share, _ in those], "share", ""),
            **spread([p50_ms for _, p50_ms in those if p50_ms is not None], "p50", "_ms"),
        }
        for key, those in hours.items()
        if len(those) >= 3
    }


def spread(values: Sequence[float], name: str, unit: str) -> dict[str, object]:
    middle = median_low(values) if values else None
    mad = None if middle is None else median_low([abs(value - middle) for value in values])
    return {f"{name}{unit}": middle, f"{name}_mad{unit}": mad}


def test_neighbouring_slots_are_one_incident(spark: SparkSession) -> None:
    unhealthy = [slot_row("e", 10, failed, slot=slot) for slot, failed in ((0, 4), (1, 6), (3, 2), (6, 3))]
    slots = [
        *unhealthy,
        slot_row("e", 50, 0, 8_000, slot=9),
        slot_row("e", 70, 0, 9_000, slot=10),
        slot_row("ok", 9, 0),
    ]
    states = ["failing"] * 4 + ["slow"] * 2 + ["healthy"]
    frame = spark.createDataFrame(
        [(*slot, state, 0.01, 5) for slot, state in zip(slots, states, strict=True)],
        SLOT_COLUMNS + ", state string, expected_share double, expected_p50_ms bigint",
    )
    found = rows(incidents(frame, SLOT_MS).orderBy("from_ms"))
    shown = ("state", "from_ms", "until_ms", "attempts", "failed", "p50_ms", "status")
    assert [tuple(row[name] for name in shown) for row in found] == [
        ("failing", AT_MS + 1_000, AT_MS + 3 * SLOT_MS + 599_000, 30, 12, 10, 503),
        ("failing", AT_MS + 6 * SLOT_MS + 1_000, AT_MS + 6 * SLOT_MS + 599_000, 10, 3, 10, 503),
        ("slow", AT_MS + 9 * SLOT_MS, AT_MS + 11 * SLOT_MS, 120, 0, 9_000, None),
    ]


def counted(queue: str, at_ms: int, sent: int, received: int, deleted: int) -> QueueCounted:
    return QueueCounted(
        at_ms=at_ms, since_ms=at_ms - 60_000, queue=queue, sent=sent, received=received, deleted=deleted
    )


def test_traffic_by_time_of_day(spark: SparkSession) -> None:
    """Means over all days, those without traffic too."""
    told: list[Event] = [
        *[publish("t", at_ms=AT_MS + 8 * HOUR_MS)] * 30,
        *[publish("t", at_ms=AT_MS + DAY_MS + 8 * HOUR_MS)] * 6,
        publish("u", at_ms=AT_MS + 8 * HOUR_MS),
        attempted("e", AT_MS),
        attempted("e", AT_MS, cause="timeout"),
        replace(attempted("e", AT_MS), message_type="SubscriptionConfirmation"),
        counted("q", AT_MS + 23 * HOUR_MS, 72, 36, 18),
        counted("q", AT_MS + 24 * HOUR_MS - 1, 72, 36, 18),
    ]
    by_hour = time_of_day(hourly_traffic(frame_of(spark, told)), days=4)
    assert [tuple(row.values()) for row in rows(by_hour)] == [
        ("endpoint", "e", "delivered", 0, 1, 1 / 14_400, 1),
        ("endpoint", "e", "failed", 0, 1, 1 / 14_400, 1),
        ("queue", "q", "deleted", 23, 36, 0.0025, 36),
        ("queue", "q", "received", 23, 72, 0.005, 72),
        ("queue", "q", "sent", 23, 144, 0.01, 144),
        ("topic", "t", "accepted", 8, 36, 0.0025, 30),
        ("topic", "u", "accepted", 8, 1, 1 / 14_400, 1),
    ]
    topics = [row for row in rows(all_by_hour(by_hour)) if row["kind"] == "topic"]
    assert [(row["hour"], round(row["per_second"] * 14_400)) for row in topics] == [(8, 37)]


def test_days_of_a_period() -> None:
    assert days_of(Period(AT_MS, AT_MS + DAY_MS)) == [date(2024, 10, 4)]
    assert days_of(Period(AT_MS - 1, AT_MS + 1)) == [date(2024, 10, 3), date(2024, 10, 4)]
    assert len(days_of(Period(0, AT_MS))) == 28
    assert (days_before(AT_MS)[0], days_before(AT_MS)[-1]) == (date(2024, 9, 6), date(2024, 10, 3))


def test_a_day_that_had_not_ended_when_it_was_made_is_made_anew(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """However many days later: no pipeline ran meanwhile."""
    paths, table = PipelinePaths(out), hours_table(PipelinePaths(out))
    days = days_of(Period(AT_MS, AT_MS + 5 * DAY_MS))
    write_segment(tmp_path / "segments", "b", 1, [attempted("e", AT_MS), attempted("e", AT_MS + DAY_MS)])
    ingest(spark, tmp_path / "segments", paths)
    table.update(spark, paths, days)
    for number, day in enumerate(days[:2]):
        made_s = (AT_MS + DAY_MS) / 1000 if number else (AT_MS + 3 * DAY_MS) / 1000
        os.utime(out / "health" / "hours" / f"date={day}", (made_s, made_s))
    late = [attempted("e", AT_MS + HOUR_MS), attempted("e", AT_MS + DAY_MS + HOUR_MS)]
    write_segment(tmp_path / "segments", "b", 3, late)
    ingest(spark, tmp_path / "segments", paths)
    table.update(spark, paths, days)
    found = sorted(row["slot_ms"] for row in rows(table.read(spark, days)))
    assert found == [AT_MS, AT_MS + DAY_MS, AT_MS + DAY_MS + HOUR_MS], "the first day had ended long before"


@pytest.mark.extended
def test_the_job_keeps_days_and_tells_workers(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """Four days of steady traffic, then an hour in which one endpoint fails. A lost day is made again."""
    paths = PipelinePaths(out)
    told: list[Event] = [
        attempted(endpoint, AT_MS + hour * HOUR_MS + minute * 60_000)
        for endpoint in ("good", "bad")
        for hour in range(96)
        for minute in range(0, 60, 10)
    ]
    end_ms = AT_MS + 97 * HOUR_MS
    told += [attempted("good", end_ms - minute * 60_000) for minute in range(10, 60, 5)]
    told += [attempted("bad", end_ms - minute * 60_000, 5, 503, "status", "<off>") for minute in range(10, 60, 5)]
    write_segment(tmp_path / "segments", "b", 1, told)
    ingest(spark, tmp_path / "segments", paths)
    period = Period(end_ms - DAY_MS, end_ms)
    health = update_health(spark, paths, period, end_ms + 5)
    hours = out / "health" / "hours"
    assert {path.name for path in hours.glob("date=*")} == {f"date=2024-10-0{day}" for day in range(4, 9)}
    (incident,) = health.incidents
    assert (incident.endpoint, incident.state, incident.failed, incident.reason) == ("bad", "failing", 10, "<off>")
    assert (incident.expected_share, health.history_days, health.endpoints) == (0.0, 3, 2)
    assert [(one.endpoint, one.failed, len(one.shares)) for one in health.timelines] == [("bad", 10, 144)]
    written = read_endpoint_health(out / "health" / FILE_NAME)
    assert (written.observed_until_ms, written.observed) == (end_ms, 2)
    assert written.unhealthy == (
        UnhealthyEndpoint(
            endpoint="bad",
            state="failing",
            since_ms=end_ms - 55 * 60_000,
            attempts=10,
            failed=10,
            expected_share=0.0,
            expected_p50_ms=10,
            cause="status",
            status=503,
        ),
    )
    shutil.rmtree(hours / "date=2024-10-05")
    (hours / ".spark-staging-dead").mkdir()
    assert update_health(spark, paths, period, end_ms + 5) == health
    update_health(spark, paths, Period(AT_MS, AT_MS + DAY_MS), end_ms + 9)
    assert read_endpoint_health(out / "health" / FILE_NAME) == written  # an earlier day does not replace it
