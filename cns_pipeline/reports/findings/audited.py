"""The findings of the audit in the report: lost, repeated and reordered messages."""

from __future__ import annotations

from collections.abc import Iterator

from cns_pipeline.audit.document import Audit
from cns_pipeline.reports.findings.finding import ReportIssue, Severity
from cns_pipeline.reports.text import short_arn

_SEVERITIES = {"error": Severity.LOST, "warning": Severity.UNSURE}
"""Only the audit section has the notes."""


def find_audited(audit: Audit) -> Iterator[ReportIssue]:
    lost = {one.queue: one.counts.lost for one in audit.queues}
    for one in audit.findings:
        if one.severity in _SEVERITIES:
            yield ReportIssue(
                kind="audit",
                severity=_SEVERITIES[one.severity],
                weight=lost.get(one.queue, 0),
                subject=f"Queue {short_arn(one.queue)}:" if one.queue else "Audit:",
                text=one.text,
                section="audit",
            )
