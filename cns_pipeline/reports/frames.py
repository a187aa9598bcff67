"""All frames of a report: its statements, run by Spark SQL over the events of its period."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.period import Period
from cns_pipeline.transforms.coverage import coverage, lines_aside
from cns_pipeline.transforms.period_events import events_of_weeks
from cns_pipeline.transforms.report.statements import BY_TARGET, EVENTS, OF_TOPICS, ROW, SUMS, TABLE, WEEK, statements

PRESENT, BEFORE = "present", "before"
ON_DISK = StorageLevel.DISK_ONLY
"""In memory, the pairs of a million deliveries would leave too little of a small heap for the later statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFrames:
    """`figures` has the rows of all tables of figures; each other frame is one table."""

    figures: DataFrame
    coverage: DataFrame
    aside: DataFrame
    queues: DataFrame
    retries: DataFrame
    latency: DataFrame
    failures: DataFrame
    dead_letters: DataFrame
    drops: DataFrame
    slowest: DataFrame
    recoveries: DataFrame
    usage: DataFrame


_OF_STATEMENTS = set(ReportFrames.__dataclass_fields__) - {"figures", "coverage", "aside"}


def report_frames(events: DataFrame, period: Period, removed_until_ms: int = 0) -> ReportFrames:
    """`events`: those of the table, at least of the period, of the week before, and of an hour around each. Events
    until `removed_until_ms` were removed from the table, and do not count as unknown.

    A kept result is a local checkpoint, not a cache: plans that read it begin there, and planning is most of the cost
    of a small report. If a cluster loses an executor, the job fails and is run again.
    """
    frames = _results(events_of_weeks(events, period))
    return ReportFrames(
        figures=_beside_before(frames["figures"]).localCheckpoint(storageLevel=ON_DISK),
        coverage=coverage(events, Period(max(period.since_ms, removed_until_ms), period.until_ms)),
        aside=lines_aside(events, period),
        **{name: frames[name] for name in _OF_STATEMENTS},
    )


def _results(events: DataFrame) -> dict[str, DataFrame]:
    """The result of each statement. Only kept ones are computed here."""
    frames = {EVENTS: events}
    for statement in statements().values():
        inputs = {name: frames[name] for name in statement.inputs}
        frame = events.sparkSession.sql(statement.text, args=None, **inputs)
        frames[statement.name] = frame.localCheckpoint(storageLevel=ON_DISK) if statement.is_kept else frame
    return frames


def _beside_before(rows: DataFrame) -> DataFrame:
    """Return the columns `ROW`, `present` and `before`. A row only of the week before has present figures of 0; a row
    without them has `before` null."""
    names = [name for name in rows.columns if name not in (WEEK, *ROW)]
    present, before = [
        rows.where(F.col(WEEK) == week).select(*ROW, F.struct(*names).alias(name))
        for week, name in enumerate((PRESENT, BEFORE))
    ]
    nothing = F.struct(*[_nothing(name).cast(rows.schema[name].dataType).alias(name) for name in names])
    return present.join(before, on=list(ROW), how="full_outer").select(
        *ROW, F.coalesce(PRESENT, nothing).alias(PRESENT), BEFORE
    )


def _nothing(name: str) -> Column:
    if name in OF_TOPICS:
        return F.when(~F.col(TABLE).isin(*BY_TARGET), 0)
    return F.lit(0 if name in SUMS else None)
