"""Transforms: frame in, frame out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from cns_common.events.schema import Event
from cns_pipeline.schema import EVENT_NAMES, event_schema, table_schema
from cns_pipeline.transforms.coverage import coverage
from cns_pipeline.transforms.deliveries import deliveries
from cns_pipeline.transforms.delivery_report import delivery_report
from cns_pipeline.transforms.identity import distinct_events, new_events
from cns_pipeline.transforms.parse import parse_lines
from cns_pipeline.transforms.publishes import publishes
from tests.pipeline.segments import AT_MS, DAY_MS, attempt, dead_letter, delivery, drop, event_line, publish

LINES = StructType([StructField("value", StringType()), StructField("file", StringType())])
GOOD: dict[str, object] = json.loads(event_line("b", 1, publish()))


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def lines(spark: SparkSession, *texts: str) -> DataFrame:
    return spark.createDataFrame([(text, "f") for text in texts], LINES)


def events(spark: SparkSession, told: Sequence[Event]) -> DataFrame:
    return parse_lines(lines(spark, *[event_line("b", n, event).decode().strip() for n, event in enumerate(told, 1)]))


# -- parsed -----------------------------------------------------------------------------------------------------------


def test_an_event_keeps_all_its_fields(spark: SparkSession) -> None:
    frame = parse_lines(lines(spark, json.dumps(GOOD)))
    (row,) = rows(frame)
    assert frame.schema.simpleString() == table_schema().simpleString()
    assert {name: value for name, value in row.items() if value is not None} == GOOD | {
        "file": "f",
        "date": date(2024, 10, 4),
    }


def test_every_event_of_the_schema_is_understood(spark: SparkSession) -> None:
    found = rows(parse_lines(lines(spark, *[json.dumps(GOOD | {"event": name}) for name in EVENT_NAMES])))
    assert [(row["event"], row["line"]) for row in found] == [(name, None) for name in EVENT_NAMES]


def test_the_date_is_that_of_utc(spark: SparkSession) -> None:
    told = [publish(at_ms=AT_MS - 1), publish(at_ms=AT_MS), publish(at_ms=AT_MS + DAY_MS - 1)]
    assert [row["date"].day for row in rows(events(spark, told))] == [3, 4, 4]


MALFORMED = {
    "torn": json.dumps(GOOD)[:-1],
    "torn in a text": json.dumps(GOOD)[:-5],
    "two in one": json.dumps(GOOD)[:40] + json.dumps(GOOD),
    "empty": "",
    "no object": "[1]",
    "null": "null",
    "zeros": "\0\0\0",
    "a field of another type": json.dumps(GOOD | {"at_ms": "yesterday"}),
    "unknown event": json.dumps(GOOD | {"event": "publish.refused"}),
    "before 1970": json.dumps(GOOD | {"at_ms": -1}),
    "after the year 9999": json.dumps(GOOD | {"at_ms": 253_402_300_800_000}),
    "beyond 64 bits": json.dumps(GOOD | {"at_ms": 2**63}),
    "a part of a millisecond": json.dumps(GOOD | {"at_ms": 1.5}),
    **{
        f"without {name}": json.dumps(GOOD | {name: None}) for name in ("version", "boot", "sequence", "event", "at_ms")
    },
}


def test_what_is_no_event_is_kept_whole_and_apart(spark: SparkSession) -> None:
    found = rows(parse_lines(lines(spark, *MALFORMED.values())))
    told = {
        name: {key: value for key, value in row.items() if value is not None}
        for name, row in zip(MALFORMED, found, strict=True)
    }
    assert told == {name: {"event": "malformed", "line": text, "file": "f"} for name, text in MALFORMED.items()}


def test_lines_of_a_newer_version_are_kept_whole_and_apart(spark: SparkSession) -> None:
    texts = [json.dumps(GOOD | {"version": 2}), json.dumps(GOOD | {"version": 3, "at_ms": "2027-01-01", "jobs": []})]
    found = rows(parse_lines(lines(spark, *texts)))
    assert [(row["event"], row["line"], row["boot"]) for row in found] == [("newer", text, None) for text in texts]


def test_the_last_and_first_times_have_dates(spark: SparkSession) -> None:
    found = rows(events(spark, [publish(at_ms=0), publish(at_ms=253_402_300_799_999)]))
    assert [row["date"] for row in found] == [date(1970, 1, 1), date(9999, 12, 31)]


def test_a_field_of_a_later_addition_is_passed_over(spark: SparkSession) -> None:
    (row,) = rows(parse_lines(lines(spark, json.dumps(GOOD | {"colour": "blue"}))))
    assert (row["event"], row["line"]) == ("publish.accepted", None)


def test_the_schema_has_every_field_once() -> None:
    names = event_schema().fieldNames()
    assert len(names) == len(set(names))
    assert names[:5] == ["version", "boot", "sequence", "event", "at_ms"]


# -- the report -------------------------------------------------------------------------------------------------------


def test_accepted_counts_publishes_by_topic(spark: SparkSession) -> None:
    told: list[Event] = [
        publish("t", size_bytes=1),
        publish("t", size_bytes=2),
        publish("u", size_bytes=4),
        attempt("v", "s"),
    ]
    found = {row["topic"]: (row["accepted"], row["accepted_bytes"]) for row in rows(publishes(events(spark, told)))}
    assert found == {"t": (2, 3), "u": (1, 4)}


def test_deliveries_tell_what_became_of_each_subscription(spark: SparkSession) -> None:
    told = [
        *[event for took_ms in range(1, 101) for event in (attempt("t", "s"), delivery("t", "s", took_ms))],
        *[attempt("t", "f", "status") for _ in range(3)],
        dead_letter("t", "f"),
        attempt("t", "f", "timeout"),
        drop("t", "f"),
        attempt("t", "s", message_type="SubscriptionConfirmation"),
        delivery("t", "s", 10_000, message_type="SubscriptionConfirmation"),
        publish("t"),
    ]
    found = {row.pop("subscription"): row for row in rows(deliveries(events(spark, told)))}
    assert found == {
        "s": figures("t", attempts=100, delivered=100, p50_ms=50, p99_ms=99),
        "f": figures("t", attempts=4, attempts_failed=4, dead_lettered=1, dropped=1),
    }


def figures(topic: str, **counts: int) -> dict[str, object]:
    none = dict.fromkeys(("attempts", "attempts_failed", "delivered", "dead_lettered", "dropped"), 0)
    return {"topic": topic, "p50_ms": None, "p99_ms": None, "fanouts_dropped": 0, "replayed": 0, **none, **counts}


def test_drops_before_the_fanout_are_counted_by_topic(spark: SparkSession) -> None:
    told = [drop("t", "s"), drop("t", "", 0), drop("t", "", 0), drop("t", "", 3), drop("t", "", 4), drop("u", "", 0)]
    frame = deliveries(events(spark, told))
    found = {(row["topic"], row["subscription"]): (row["dropped"], row["fanouts_dropped"]) for row in rows(frame)}
    assert found == {("t", "s"): (1, 0), ("t", ""): (7, 2), ("u", ""): (0, 1)}
    report = rows(delivery_report(publishes(events(spark, told)), frame))
    assert (sum(row["dropped"] for row in report), sum(row["fanouts_dropped"] for row in report)) == (8, 3)


def test_replays_are_counted_apart_and_their_times_left_out(spark: SparkSession) -> None:
    told = [*[delivery("t", "s", 10)] * 3, *[delivery("t", "s", DAY_MS, replayed=True)] * 5]
    told += [delivery("t", "late", DAY_MS, replayed=True)]
    found = {row.pop("subscription"): row for row in rows(deliveries(events(spark, told)))}
    assert found == {
        "s": figures("t", delivered=8, replayed=5, p50_ms=10, p99_ms=10),
        "late": figures("t", delivered=1, replayed=1),
    }


def test_an_event_is_what_its_boot_and_number_say(spark: SparkSession) -> None:
    opened = (
        '{"version":1,"boot":"b","sequence":0,"event":"segment.opened","at_ms":1,"process":"p","first_sequence":%d}'
    )
    one, two, other = [json.dumps(GOOD | {"boot": boot, "sequence": n}) for boot, n in (("b", 1), ("b", 2), ("c", 1))]
    texts = [opened % 1, one, two, "no event"]
    both = parse_lines(lines(spark, *texts, *texts, other, opened % 3))
    assert distinct_events(both).count() == len(texts) + 2
    rest = new_events(both, parse_lines(lines(spark, *texts)))
    assert [(row["boot"], row["sequence"], row["first_sequence"]) for row in rows(rest.orderBy("boot"))] == [
        ("b", 0, 3),
        ("c", 1, None),
    ]


def test_the_report_has_topics_without_deliveries_and_deliveries_without_publishes(spark: SparkSession) -> None:
    told = [
        publish("quiet"),
        publish("t"),
        publish("t"),
        *[attempt("t", "s")] * 4,
        *[delivery("t", "s", 5)] * 3,
        drop("t", "s"),
        attempt("older", "s"),
        delivery("older", "s", 7),
        attempt("waiting", "s", "status"),
    ]
    frame = events(spark, told)
    report = rows(delivery_report(publishes(frame), deliveries(frame)))
    shown = ("topic", "subscription", "accepted", "attempts", "delivered", "dropped", "success_share", "p50_ms")
    assert [tuple(row[name] for name in shown) for row in report] == [
        ("t", "s", 2, 4, 3, 1, 0.75, 5),
        ("older", "s", 0, 1, 1, 0, 1.0, 7),
        ("waiting", "s", 0, 1, 0, 0, None, None),
        ("quiet", None, 1, 0, 0, 0, None, None),
    ]


def test_coverage_knows_what_is_missing(spark: SparkSession) -> None:
    """Boot `a` wrote events 1 to 3; boot `b` wrote 3 and 5, and its segments name 6 as the last."""
    sealed = {"event": "segment.sealed", "sequence": 0, "at_ms": 1, "version": 1, "process": "p"}
    texts = [
        *[json.dumps(GOOD | {"boot": "a", "sequence": n}) for n in (1, 2, 3)],
        json.dumps(sealed | {"boot": "a", "last_sequence": 3, "torn_bytes": 0}),
        *[json.dumps(GOOD | {"boot": "b", "sequence": n}) for n in (3, 5)],
        json.dumps(sealed | {"boot": "b", "last_sequence": 6, "torn_bytes": 17}),
        json.dumps(GOOD | {"boot": "c", "sequence": 2}),
        "no event",
    ]
    found = {row["boot"]: row for row in rows(coverage(parse_lines(lines(spark, *texts))))}
    assert {boot: (row["process"], row["events"], row["unknown"]) for boot, row in found.items()} == {
        "a": ("p", 3, 0),
        "b": ("p", 2, 4),
        "c": (None, 1, 1),
    }
    assert found["b"]["torn_bytes"] == 17
