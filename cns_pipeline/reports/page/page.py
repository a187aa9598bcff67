"""Draws the page of a report as one file, which loads nothing and runs only its own script and style."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from xml.etree.ElementTree import Element

from cns_common.charts.markup import tag, write_html
from cns_pipeline.audit.document import Audit
from cns_pipeline.health.document import Health
from cns_pipeline.reports.document import Coverage, Report
from cns_pipeline.reports.findings.finding import ReportIssue
from cns_pipeline.reports.page.audit import audit_section
from cns_pipeline.reports.page.endpoints import endpoints_section, incident_spans
from cns_pipeline.reports.page.failures import drops_section, failures_section
from cns_pipeline.reports.page.rankings import rankings_section, usage_section
from cns_pipeline.reports.page.summary import figures_section, findings_section, header
from cns_pipeline.reports.page.tables import number, number_columns, section, table
from cns_pipeline.reports.page.time_of_day import time_of_day_section
from cns_pipeline.reports.page.traffic import latency_section, traffic_section
from cns_pipeline.reports.text import plain


def draw_page(
    report: Report, findings: Sequence[ReportIssue], health: Health | None = None, audit: Audit | None = None
) -> str:
    """Return the whole page as HTML."""
    spans = incident_spans(health)
    sections = [
        findings_section(report, findings),
        figures_section(report),
        traffic_section(report, spans),
        latency_section(report, spans),
        failures_section(report),
        endpoints_section(report, health),
        drops_section(report),
        rankings_section(report),
        usage_section(report),
        audit_section(audit) if audit else None,
        time_of_day_section(health) if health else None,
        _coverage_section(report.coverage),
    ]
    there = [one for one in sections if one is not None]
    body = tag("body", header(report), _menu(there), tag("main", *there), tag("script", _asset("sort.js")))
    return write_html(tag("html", _head(report), body, lang="en"))


def _head(report: Report) -> Element:
    style, script = _asset("page.css"), _asset("sort.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="referrer", content="no-referrer"),
        tag("title", f"Delivery report, {report.period}"),
        tag("style", style),
    )


def _menu(sections: Sequence[Element]) -> Element:
    names = {one.get("id", ""): one.findtext("h2") for one in sections}
    entries = [tag("li", tag("a", title, href=f"#{name}")) for name, title in names.items()]
    return tag("nav", tag("ul", *entries), aria_label="Sections")


def _coverage_section(known: Coverage) -> Element:
    columns = number_columns("events", "missing", "malformed lines", "lines of a newer version")
    row = (number(known.events), number(known.unknown), number(known.malformed), number(known.newer))
    named = ", ".join([plain(name) for name in known.malformed_files])
    return section(
        "coverage",
        "Coverage",
        tag("p", "Missing events were never written, or removed before they were ingested.", class_="muted"),
        table("How much of what happened this report knows", columns, [row]),
        tag("p", f"Malformed lines are in {named}.") if named else None,
    )


def _asset(name: str) -> str:
    """A file of this package. In HTML its text begins directly after the start tag, so that the hash is right."""
    return files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
