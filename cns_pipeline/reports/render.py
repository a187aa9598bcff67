"""The presentation of a report as page and text: findings, health of endpoints, and the last audit."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_common.errors import UNREADABLE
from cns_pipeline.audit.document import Audit
from cns_pipeline.health.collect import collect_health
from cns_pipeline.health.document import Health
from cns_pipeline.health.job import read_history
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import END_MS, Period
from cns_pipeline.reports.document import Report
from cns_pipeline.reports.findings.find import find
from cns_pipeline.reports.findings.finding import ReportIssue
from cns_pipeline.reports.page.page import draw_page
from cns_pipeline.reports.terminal import format_report
from cns_pipeline.storage import Storage

AUDIT = "audit.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    report: Report
    findings: tuple[ReportIssue, ...]
    page: str  # HTML

    def text(self, width: int, *, wide: bool = False) -> str:
        """The report for a terminal of this many columns. `wide`: all columns and whole ARNs."""
        return format_report(self.report, self.findings, width, wide=wide)


def present(spark: SparkSession, paths: PipelinePaths, events: DataFrame, report: Report) -> Presentation:
    """Judge the endpoints of the report's period, and draw the page. `events` may include others."""
    period = shown_period(report)
    health = None if period is None else _health(spark, paths, events, period, report.made_at_ms)
    audit = _overlapping(read_audit(Storage(spark), paths), period)
    findings = find(report, health, audit)
    return Presentation(report=report, findings=findings, page=draw_page(report, findings, health, audit))


def shown_period(report: Report) -> Period | None:
    """The period of the report. An open end is that of its events, a future end is now; None without events."""
    if report.first_ms is None or report.last_ms is None:
        return None
    since_ms, until_ms, last_ms = report.period.since_ms, report.period.until_ms, report.last_ms + 1
    now_ms = last_ms if until_ms == END_MS else max(report.made_at_ms, last_ms)
    return Period(since_ms or report.first_ms, min(until_ms, now_ms))


def read_audit(storage: Storage, paths: PipelinePaths) -> Audit | None:
    """The last audit; None if there is none, or if another version wrote it."""
    with contextlib.suppress(FileNotFoundError, *UNREADABLE):
        return msgspec.json.decode(storage.read(paths.out / "audit" / AUDIT), type=Audit)
    return None


def _health(spark: SparkSession, paths: PipelinePaths, events: DataFrame, period: Period, made_at_ms: int) -> Health:
    is_of_period = (F.col("at_ms") >= period.since_ms) & (F.col("at_ms") < period.until_ms)
    return collect_health(events.where(is_of_period), read_history(spark, paths, period), period, made_at_ms)


def _overlapping(audit: Audit | None, period: Period | None) -> Audit | None:
    if audit is None or period is None:
        return None
    return audit if audit.since_ms < period.until_ms and audit.until_ms > period.since_ms else None
