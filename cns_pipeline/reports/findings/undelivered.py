"""Findings about notifications that were dropped, moved to dead-letter queues, or did not end."""

from __future__ import annotations

from collections.abc import Iterator

from cns.delivery.failure_causes import is_of_concern, why_failed
from cns_pipeline.reports.document import Report
from cns_pipeline.reports.findings.finding import ReportIssue, Severity
from cns_pipeline.reports.text import count, counted, mostly, share, short_arn

PENDING_SHARE_MIN = 0.01
"""A smaller share of deliveries is normally in progress."""
PENDING_MIN = 20


def find_undelivered(report: Report) -> Iterator[ReportIssue]:
    yield from _drops(report)
    yield from _dead_letters(report)
    yield from _pending(report)


def _drops(report: Report) -> Iterator[ReportIssue]:
    for drop in report.drops:
        if not is_of_concern(drop.cause):
            continue
        parts = (counted(drop.subscriptions, "notification"), counted(drop.fanouts, "whole fan-out"))
        numbers = (drop.subscriptions, drop.fanouts)
        yield ReportIssue(
            kind="dropped",
            severity=Severity.LOST,
            weight=drop.subscriptions + drop.fanouts,
            subject=" and ".join([part for part, number in zip(parts, numbers, strict=True) if number]),
            text=f"dropped: {_because(drop.cause)}{mostly(drop.most, sum(numbers), drop.topic, drop.endpoint)}",
            section="drops",
        )


def _dead_letters(report: Report) -> Iterator[ReportIssue]:
    for cause in dict.fromkeys([one.cause for one in report.dead_letters]):
        those = [one for one in report.dead_letters if one.cause == cause]
        messages = sum([one.messages for one in those])
        worst = max(those, key=lambda one: one.most)
        moved_to = short_arn(those[0].queue) if len(those) == 1 else f"{len(those)} dead-letter queues"
        yield ReportIssue(
            kind="dead_lettered",
            severity=Severity.FAILED,
            weight=messages,
            subject=counted(messages, "notification"),
            text=f"moved to {moved_to}: {_because(cause)}{mostly(worst.most, messages, worst.topic, worst.endpoint)}",
            section="drops",
        )


def _pending(report: Report) -> Iterator[ReportIssue]:
    pending, matched = report.totals.pending or 0, report.totals.matched or 0
    if pending >= PENDING_MIN and pending > PENDING_SHARE_MIN * matched:
        yield ReportIssue(
            kind="pending",
            severity=Severity.FAILED,
            weight=pending,
            subject=f"{count(pending)} deliveries",
            text=f"not ended at the end of the period: {share(pending / matched)} of those that were to be made",
            section="traffic",
        )


def _because(cause: str) -> str:
    words = why_failed(cause).title
    return cause if words == cause else f"{words} ({cause})"
