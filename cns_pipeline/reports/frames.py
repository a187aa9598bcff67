"""All frames of a report, from the events of its period; what several of them need is computed once."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from cns_pipeline.period import Period
from cns_pipeline.transforms.coverage import coverage
from cns_pipeline.transforms.report.aside import lines_aside
from cns_pipeline.transforms.report.cells import cells
from cns_pipeline.transforms.report.ends import ends, outcome_cells
from cns_pipeline.transforms.report.event_cells import event_cells
from cns_pipeline.transforms.report.failures import dead_letters, drops, failures
from cns_pipeline.transforms.report.figures import figures
from cns_pipeline.transforms.report.latencies import latencies, percentiles
from cns_pipeline.transforms.report.latency_bins import latency_bins
from cns_pipeline.transforms.report.matches import filter_cells, match_cells, matches
from cns_pipeline.transforms.report.notifications import notifications
from cns_pipeline.transforms.report.pairs import pairs
from cns_pipeline.transforms.report.pending import pending_cells
from cns_pipeline.transforms.report.period_events import events_of_weeks, events_within
from cns_pipeline.transforms.report.places import places
from cns_pipeline.transforms.report.queues import queues
from cns_pipeline.transforms.report.recoveries import recoveries
from cns_pipeline.transforms.report.retries import retries
from cns_pipeline.transforms.report.slowest import slowest
from cns_pipeline.transforms.report.usage import requests, usage

ON_DISK = StorageLevel.DISK_ONLY
"""In memory, the pairs of a million deliveries would leave too little of a small heap for what is made of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFrames:
    """`figures` has the rows of all tables of figures; the others are a table each."""

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


def report_frames(events: DataFrame, period: Period, removed_until_ms: int = 0) -> ReportFrames:
    """`events` are those of the table, at least of the period, of the week before and of an hour around both; those
    until `removed_until_ms` are not in it any more, and not unknown.

    What several frames need is computed here, and kept until no frame of it is left. It is a local checkpoint, not a
    cache: the plans above it begin there, and planning is most of what a small report costs. A cluster that loses an
    executor meanwhile fails the job, which is run again.
    """
    own = events_within(events, period)
    notified = notifications(events_of_weeks(events, period))
    matched = matches(notified).localCheckpoint(storageLevel=ON_DISK)
    paired = pairs(notified, matched).localCheckpoint(storageLevel=ON_DISK)
    ended = ends(paired).localCheckpoint(storageLevel=ON_DISK)
    summed = event_cells(notified).localCheckpoint(storageLevel=ON_DISK)
    known = places(summed).localCheckpoint(storageLevel=ON_DISK)
    parts = (summed, match_cells(matched), filter_cells(notified), outcome_cells(ended), pending_cells(paired))
    counted = cells(*parts, places=known).localCheckpoint(storageLevel=ON_DISK)
    timed = latencies(ended, known).localCheckpoint(storageLevel=ON_DISK)
    return ReportFrames(
        figures=figures(counted, percentiles(timed)).localCheckpoint(storageLevel=ON_DISK),
        coverage=coverage(events, Period(max(period.since_ms, removed_until_ms), period.until_ms)),
        aside=lines_aside(events, period),
        queues=queues(own),
        retries=retries(ended),
        latency=latency_bins(timed),
        failures=failures(own),
        dead_letters=dead_letters(own),
        drops=drops(own),
        slowest=slowest(paired),
        recoveries=recoveries(own),
        usage=usage(counted, requests(own)),
    )
