"""Transforms: frame in, frame out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, StringType, StructField, StructType

from cns_common.durations import DAY_MS
from cns_common.events.schema import Event
from cns_pipeline.period import EVERYTHING, Period
from cns_pipeline.schema import EVENT_NAMES, event_schema, table_schema
from cns_pipeline.transforms.coverage import coverage, lines_aside
from cns_pipeline.transforms.identity import distinct_events, new_events
from cns_pipeline.transforms.parse import parse_lines
from tests.pipeline.ingest.segments import AT_MS, event_line, publish

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
    "unknown event, torn": json.dumps(GOOD | {"event": "publish.refused"})[:-1],
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


def test_an_event_that_was_added_later_is_of_a_newer_version(spark: SparkSession) -> None:
    text = json.dumps(GOOD | {"event": "publish.refused"})
    (row,) = rows(parse_lines(lines(spark, text)))
    assert (row["event"], row["line"], row["boot"]) == ("newer", text, None)


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


# -- identity and coverage --------------------------------------------------------------------------------------------


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


def test_lines_kept_aside_are_of_the_dates_of_the_period(spark: SparkSession) -> None:
    """A report reads the week before as well, whose lines it has reported already."""
    day = date(2024, 10, 4)
    dated = [("no event", str(back), day - timedelta(days=back)) for back in (-1, 0, 1, 7)]
    schema = StructType([*LINES.fields, StructField("date", DateType())])
    kept = parse_lines(spark.createDataFrame([*dated, ("no event", "none", None)], schema))
    found = lines_aside(kept, Period(AT_MS, AT_MS + DAY_MS))
    assert sorted(row["file"] for row in rows(found)) == ["0", "none"]
    assert lines_aside(kept, EVERYTHING).count() == 5


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


def test_coverage_of_a_period_counts_the_numbers_between_its_events(spark: SparkSession) -> None:
    """Numbers 1 to 3 are of the hours before; 5 is late, and 7 early, so their times are outside; 6 is missing."""
    period = Period(AT_MS, AT_MS + DAY_MS)
    times = {1: -9_000_000, 3: -1_000, 4: 5, 5: -1, 7: DAY_MS + 1, 8: DAY_MS - 1, 9: DAY_MS + 2}
    told = [json.dumps(GOOD | {"sequence": n, "at_ms": AT_MS + ms}) for n, ms in times.items()]
    sealed = {"event": "segment.sealed", "sequence": 0, "at_ms": AT_MS + 9, "first_sequence": 1, "last_sequence": 3}
    told.append(json.dumps(GOOD | sealed))
    (row,) = rows(coverage(parse_lines(lines(spark, *told)), period))
    assert (row["events"], row["unknown"]) == (2, 1)
