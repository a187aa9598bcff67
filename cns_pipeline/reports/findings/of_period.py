"""Findings about the whole period: latency and traffic against the week before, duplicates, refused requests, gaps."""

from __future__ import annotations

from collections.abc import Iterator

from cns_pipeline.reports.document import Figures, Report
from cns_pipeline.reports.findings.finding import ReportIssue, Severity
from cns_pipeline.reports.text import count, counted, milliseconds, mostly, share, times

LATENCY_RATIO_MIN = 2.0
LATENCY_GROWTH_MS_MIN = 100
COMPARED_MIN = 1_000
"""The minimum of deliveries or messages for a comparison: figures of fewer differ by chance."""
TRAFFIC_RATIO_MIN = 2.0
DUPLICATES_MIN = 10
DUPLICATES_SHARE_MIN = 0.0001
"""A smaller share is expected of at-least-once delivery after crashes."""
ERRORS_MIN = 100
ERRORS_SHARE_MIN = 0.1


def find_in_whole(report: Report) -> Iterator[ReportIssue]:
    yield from _refused_requests(report)
    if report.before is not None:
        yield from _latency(report.totals, report.before)
        yield from _traffic(report.totals, report.before)
    yield from _duplicates(report)
    yield from _coverage(report)


def _latency(now: Figures, before: Figures) -> Iterator[ReportIssue]:
    """The highest percentile that increased."""
    if min(now.delivered, before.delivered) < COMPARED_MIN:
        return
    for name, now_ms, before_ms in (("p99", now.p99_ms, before.p99_ms), ("p50", now.p50_ms, before.p50_ms)):
        if now_ms is None or before_ms is None:
            continue
        ratio = now_ms / max(before_ms, 1)
        if ratio >= LATENCY_RATIO_MIN and now_ms - before_ms >= LATENCY_GROWTH_MS_MIN:
            part = 0.01 if name == "p99" else 0.5
            yield ReportIssue(
                kind="latency",
                severity=Severity.SLOW,
                weight=int(now.delivered * part),
                subject=f"Delivery ({name} from publish)",
                text=f"took {milliseconds(now_ms)}, {times(ratio)} the {milliseconds(before_ms)} of the week before",
                section="latency",
            )
            return


def _traffic(now: Figures, before: Figures) -> Iterator[ReportIssue]:
    is_now, was = now.accepted or 0, before.accepted or 0
    if was >= COMPARED_MIN and is_now * TRAFFIC_RATIO_MIN <= was:
        yield ReportIssue(
            kind="traffic",
            severity=Severity.FAILED,
            weight=was - is_now,
            subject=f"{count(is_now)} messages",
            text=f"published, {share(1 - is_now / was)} fewer than the {count(was)} of the week before",
            section="traffic",
        )


def _refused_requests(report: Report) -> Iterator[ReportIssue]:
    for account in dict.fromkeys([one.account for one in report.usage]):
        those = [one for one in report.usage if one.account == account]
        requests, errors = sum([one.requests or 0 for one in those]), sum([one.errors or 0 for one in those])
        if errors >= ERRORS_MIN and errors >= ERRORS_SHARE_MIN * requests:
            yield ReportIssue(
                kind="requests",
                severity=Severity.FAILED,
                weight=errors,
                subject=f"Account {account}" if account else "Callers without an account",
                text=f"got errors for {share(errors / requests)} of {count(requests)} requests",
                section="usage",
            )


def _duplicates(report: Report) -> Iterator[ReportIssue]:
    totals = report.totals
    if totals.duplicates >= max(DUPLICATES_MIN, DUPLICATES_SHARE_MIN * totals.delivered):
        yield ReportIssue(
            kind="duplicates",
            severity=Severity.REPEATED,
            weight=totals.duplicates,
            subject=f"{count(totals.duplicates)} deliveries",
            text=f"repeated: the subscription had the message already{_repeated_most(report)}",
            section="traffic",
        )


def _repeated_most(report: Report) -> str:
    """The subscription with the most duplicates, among the busiest ones, which the report contains."""
    worst = max(report.subscriptions.rows, key=lambda row: row.figures.duplicates, default=None)
    if worst is None:
        return ""
    return mostly(worst.figures.duplicates, report.totals.duplicates, worst.topic, worst.endpoint)


def _coverage(report: Report) -> Iterator[ReportIssue]:
    known = report.coverage
    if known.unknown:
        yield _unsure(known.unknown, "event", "missing: the report lacks what they recorded", "unknown")
    if known.newer:
        yield _unsure(
            known.newer, "line", "of a newer version of the service, kept aside: upgrade the pipeline", "newer"
        )
    if known.malformed:
        files = f" (in {', '.join(known.malformed_files)})" if known.malformed_files else ""
        yield _unsure(known.malformed, "line", f"kept aside as no events{files}", "malformed")


def _unsure(number: int, what: str, text: str, kind: str) -> ReportIssue:
    return ReportIssue(
        kind=kind,
        severity=Severity.UNSURE,
        weight=number,
        subject=counted(number, what),
        text=text,
        section="coverage",
    )
