"""The endpoints section: incidents, and the share of failures over the period as a sparkline."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cns.delivery.failure_causes import failure_text
from cns_common.charts.markup import tag
from cns_pipeline.health.document import Health, Incident
from cns_pipeline.reports.document import Recovery, Report, Row
from cns_pipeline.reports.page.bar_charts import sparkline
from cns_pipeline.reports.page.tables import (
    Cell,
    arn,
    at,
    details,
    number,
    number_columns,
    part,
    section,
    span_ms,
    table,
    text_columns,
    words,
)
from cns_pipeline.reports.page.time_charts import Span
from cns_pipeline.reports.text import count, plain, share

SPANS_MAX = 10
"""The number of incidents, the worst ones, that charts over time mark."""


def incident_spans(health: Health | None) -> list[Span]:
    found = health.incidents[:SPANS_MAX] if health else ()
    return [Span(one.from_ms, one.until_ms, f"{plain(one.endpoint)} was {one.state}") for one in found]


def endpoints_section(report: Report, health: Health | None) -> Element:
    return section(
        "endpoints",
        "Endpoints",
        _incidents(health) if health else None,
        _endpoints(report, health),
        details("Time to recovery", _recoveries(report.recoveries)) if report.recoveries else None,
    )


def _incidents(health: Health) -> Element:
    columns = (
        *text_columns("endpoint", "", "from", "until"),
        *number_columns("attempts", "failed", "usually", "p50", "usually"),
        *text_columns("mostly", "for example"),
    )
    rows = [_incident(one) for one in health.incidents]
    known = "" if health.history_days else "; there is no history yet, so only gross faults are found"
    return table(
        f"Failing or slow, against their own history of {health.history_days} days{known}",
        columns,
        rows,
        health.incidents_left_out,
    )


def _incident(one: Incident) -> tuple[Cell, ...]:
    failing = one.state == "failing"
    return (
        arn(one.endpoint),
        Cell(tag("span", one.state, class_="label-failed" if failing else "label-slow")),
        at(one.from_ms),
        at(one.until_ms),
        number(one.attempts),
        part(one.failed / one.attempts),
        part(one.expected_share),
        span_ms(one.p50_ms),
        span_ms(one.expected_p50_ms),
        words(failure_text(one.cause, one.status) if failing else None),
        words(one.reason if failing else None),
    )


def _endpoints(report: Report, health: Health | None) -> Element:
    timelines = {one.endpoint: one for one in health.timelines} if health else {}
    columns = (
        *text_columns("endpoint", "protocol"),
        *number_columns("attempts", "failed", "a week before"),
        *text_columns("share of failures"),
        *number_columns("delivered", "p50", "p99"),
    )
    rows = []
    for row in report.endpoints.rows:
        timeline = timelines.get(row.name)
        drawn = None if timeline is None else sparkline(f"{share(_failed(row))} failed", timeline.shares)
        one = row.figures
        rows.append(
            (
                arn(row.name),
                words(row.protocol),
                number(one.attempts),
                part(_failed(row)),
                part(None if row.before is None else _share(row.before.attempts_failed, row.before.attempts)),
                Cell(drawn, _failed(row) or 0),
                number(one.delivered),
                span_ms(one.p50_ms),
                span_ms(one.p99_ms),
            )
        )
    caption = f"The {count(len(rows))} endpoints with the most attempts; p50 and p99 are from publish to delivery"
    return table(caption, columns, rows, report.endpoints.left_out, "endpoints.csv")


def _recoveries(recoveries: tuple[Recovery, ...]) -> Element:
    columns = (
        *text_columns("endpoint", "failed from", "last failure", "recovered"),
        *number_columns("took", "failures"),
    )
    rows = [
        (
            arn(one.endpoint),
            at(one.failed_from_ms),
            at(one.last_failed_ms),
            at(one.recovered_at_ms),
            span_ms(None if one.recovered_at_ms is None else one.recovered_at_ms - one.failed_from_ms),
            number(one.failures),
        )
        for one in recoveries
    ]
    return table("From the first failed attempt to the next success", columns, rows, file="recoveries.csv")


def _failed(row: Row) -> float | None:
    return _share(row.figures.attempts_failed, row.figures.attempts)


def _share(failed: int, attempts: int) -> float | None:
    return failed / attempts if attempts else None
