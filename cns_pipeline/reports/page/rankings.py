"""Tables of topics, subscriptions, protocols, accounts, days and queues, and the usage of accounts."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cns_pipeline.reports.document import Figures, Report, Row, Table, Usage
from cns_pipeline.reports.page.tables import (
    Cell,
    Column,
    arn,
    bytes_,
    details,
    number,
    number_columns,
    numbers,
    part,
    section,
    span_ms,
    table,
    text_columns,
    words,
)

_FIGURES: tuple[Column, ...] = number_columns(
    "attempts", "failed", "delivered", "success", "dead-lettered", "dropped", "p50", "p99", "p99 before"
)


def rankings_section(report: Report) -> Element:
    return section(
        "rankings",
        "Topics, subscriptions, queues",
        _topics("Topics with the most attempts", "topic", report.topics, "topics.csv"),
        details("Subscriptions", _subscriptions(report)),
        details("Protocols", _ranking("Protocols", "protocol", report.protocols, "protocols.csv")),
        details("Accounts", _topics("Accounts", "account", report.accounts, "accounts.csv")),
        details("Days", _topics("Days", "day", report.days, "days.csv")),
        details("Queues", _queues(report)),
    )


def usage_section(report: Report) -> Element:
    columns = (
        *text_columns("account", "day"),
        *number_columns("requests", "errors", "request bytes", "response bytes"),
        *number_columns("published", "published bytes", "deliveries", "delivered bytes"),
    )
    rows = [_usage(one) for one in report.usage]
    return section("usage", "Usage", table("By account and day, for billing", columns, rows, file="usage.csv"))


def _topics(caption: str, name: str, ranked: Table, file: str) -> Element:
    columns = (*text_columns(name), *number_columns("accepted", "matched", "filtered", "not ended"), *_FIGURES)
    rows = []
    for row in ranked.rows:
        one = row.figures
        published = numbers(one.accepted, one.matched, one.filtered, one.pending)
        rows.append((arn(row.name), *published, *_figures(row)))
    return table(caption, columns, rows, ranked.left_out, file)


def _ranking(caption: str, name: str, ranked: Table, file: str) -> Element:
    rows = [(words(row.name), *_figures(row)) for row in ranked.rows]
    return table(caption, (*text_columns(name), *_FIGURES), rows, ranked.left_out, file)


def _subscriptions(report: Report) -> Element:
    columns = (*text_columns("subscription", "protocol", "endpoint"), *_FIGURES)
    ranked = report.subscriptions
    rows = [(arn(row.name), words(row.protocol), words(row.endpoint), *_figures(row)) for row in ranked.rows]
    return table("Subscriptions with the most attempts", columns, rows, ranked.left_out, "subscriptions.csv")


def _figures(row: Row) -> tuple[Cell, ...]:
    one: Figures = row.figures
    return (
        *numbers(one.attempts, one.attempts_failed, one.delivered),
        part(one.success_share),
        *numbers(one.dead_lettered, one.dropped),
        span_ms(one.p50_ms),
        span_ms(one.p99_ms),
        span_ms(None if row.before is None else row.before.p99_ms),
    )


def _queues(report: Report) -> Element:
    columns = (
        *text_columns("queue"),
        *number_columns("sent", "received", "deleted", "moved in", "moved out"),
        *number_columns("visible", "in flight", "delayed", "oldest"),
    )
    rows = [
        (
            arn(one.queue),
            *numbers(one.sent, one.received, one.deleted, one.moved_in, one.moved_out),
            *[number(None if value < 0 else value) for value in (one.visible, one.in_flight, one.delayed)],
            span_ms(None if one.oldest_age_s < 0 else one.oldest_age_s * 1000),
        )
        for one in report.queues.rows
    ]
    return table("Queues with the most messages", columns, rows, report.queues.left_out, "queues.csv")


def _usage(one: Usage) -> tuple[Cell, ...]:
    return (
        words(one.account or "not authenticated"),
        words(one.day),
        Cell("not counted", -1) if one.requests is None else number(one.requests),
        number(one.errors),
        bytes_(one.request_bytes),
        bytes_(one.response_bytes),
        number(one.published),
        bytes_(one.published_bytes),
        number(one.deliveries),
        bytes_(one.delivered_bytes),
    )
