"""Findings about failing and slow endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cns.delivery.failure_causes import failure_text
from cns_pipeline.health.document import Health, Incident
from cns_pipeline.reports.findings.finding import ReportIssue, Severity
from cns_pipeline.reports.text import count, counted, milliseconds, share, span, times

NAMED_MAX = 10
"""The limit of named incidents of a kind. The others are counted: a failed network makes all endpoints fail."""


def find_unhealthy(health: Health) -> Iterator[ReportIssue]:
    failing = [one for one in health.incidents if one.state == "failing"]
    slow = [one for one in health.incidents if one.state == "slow"]
    yield from [_failing(one) for one in failing[:NAMED_MAX]]
    yield from _others(failing[NAMED_MAX:], Severity.FAILED)
    yield from [_slow(one) for one in slow[:NAMED_MAX]]
    yield from _others(slow[NAMED_MAX:], Severity.SLOW)


def _failing(incident: Incident) -> ReportIssue:
    usual = "" if incident.expected_share is None else f" (usually {share(incident.expected_share)})"
    why = failure_text(incident.cause, incident.status)
    return ReportIssue(
        kind="failing",
        severity=Severity.FAILED,
        weight=incident.failed,
        subject=incident.endpoint,
        text=f"failed {share(incident.failed / incident.attempts)} of {count(incident.attempts)} attempts{usual} "
        f"{span(incident.from_ms, incident.until_ms)}, mostly: {why}",
        section="endpoints",
    )


def _slow(incident: Incident) -> ReportIssue:
    took_ms, usual_ms = incident.p50_ms or 0, incident.expected_p50_ms
    usual = "" if not usual_ms else f", {times(took_ms / usual_ms)} its usual {milliseconds(usual_ms)}"
    return ReportIssue(
        kind="slow",
        severity=Severity.SLOW,
        weight=incident.attempts - incident.failed,
        subject=incident.endpoint,
        text=f"took {milliseconds(took_ms)} to answer (median){usual}, {span(incident.from_ms, incident.until_ms)}",
        section="endpoints",
    )


def _others(incidents: Sequence[Incident], severity: Severity) -> Iterator[ReportIssue]:
    if incidents:
        failed = severity is Severity.FAILED
        endpoints = len({one.endpoint for one in incidents})
        yield ReportIssue(
            kind="failing" if failed else "slow",
            severity=severity,
            weight=max([one.failed if failed else one.attempts - one.failed for one in incidents]),
            subject=counted(endpoints, "more endpoint"),
            text="failed as well" if failed else "were slow as well",
            section="endpoints",
        )
