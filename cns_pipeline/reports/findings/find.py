"""All findings of a period, most severe first."""

from __future__ import annotations

from cns_pipeline.audit.document import Audit
from cns_pipeline.health.document import Health
from cns_pipeline.reports.document import Report
from cns_pipeline.reports.findings.audited import find_audited
from cns_pipeline.reports.findings.endpoints import find_unhealthy
from cns_pipeline.reports.findings.finding import ReportIssue
from cns_pipeline.reports.findings.of_period import find_in_whole
from cns_pipeline.reports.findings.undelivered import find_undelivered


def find(report: Report, health: Health | None = None, audit: Audit | None = None) -> tuple[ReportIssue, ...]:
    """The findings by severity, and within one by the number of affected items."""
    found = [*find_undelivered(report), *find_in_whole(report)]
    if health is not None:
        found += find_unhealthy(health)
    if audit is not None:
        found += find_audited(audit)
    return tuple(sorted(found, key=lambda one: (one.severity, -one.weight, one.kind, one.subject)))
