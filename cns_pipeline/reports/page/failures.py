"""Failed attempts by cause, retries, and dropped and dead-lettered notifications."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from cns.delivery.failure_causes import failure_text, why_failed
from cns_common.charts.markup import tag
from cns_pipeline.reports.document import DeadLetter, Drop, Report, RetryBin
from cns_pipeline.reports.page.bar_charts import Bin, cell_bar, histogram
from cns_pipeline.reports.page.tables import Cell, arn, at, number, number_columns, section, table, text_columns, words
from cns_pipeline.reports.text import counted

_MOST = (*text_columns("topic with most", "endpoint"), *number_columns("of these"))


def failures_section(report: Report) -> Element:
    return section(
        "failures", "Failures", _failures_table(report), _retries(report.retries) if report.retries else None
    )


def drops_section(report: Report) -> Element:
    drops = table(
        "Dropped: no attempt follows, and no dead-letter queue has the notification",
        (*text_columns("cause", ""), *number_columns("notifications", "whole fan-outs"), *_MOST),
        [
            (
                words(one.cause),
                words(why_failed(one.cause).title),
                number(one.subscriptions),
                number(one.fanouts),
                *_most(one),
            )
            for one in report.drops
        ],
        file="drops.csv",
    )
    dead_letters = table(
        "Moved to dead-letter queues",
        (*text_columns("cause", "queue"), *number_columns("notifications"), *_MOST),
        [(words(one.cause), arn(one.queue), number(one.messages), *_most(one)) for one in report.dead_letters],
        file="dead_letters.csv",
    )
    return section("drops", "Given up", drops, dead_letters)


def _failures_table(report: Report) -> Element:
    columns = (
        *text_columns("failure"),
        *number_columns("attempts"),
        *text_columns("", "phase"),
        *number_columns("subscriptions"),
        *text_columns("first", "last", "for example"),
    )
    most = max([one.attempts for one in report.failures], default=1)
    rows = [
        (
            words(failure_text(one.cause, one.status)),
            number(one.attempts),
            Cell(cell_bar(one.attempts / most, "failed"), one.attempts),
            words(one.phase),
            number(one.subscriptions),
            at(one.first_ms),
            at(one.last_ms),
            words(one.reason),
        )
        for one in report.failures
    ]
    return table("Failed attempts by cause and phase of the retry policy", columns, rows, file="failures.csv")


def _most(one: Drop | DeadLetter) -> tuple[Cell, ...]:
    return (arn(one.topic), arn(one.endpoint), number(one.most or None))


def _retries(bins: Sequence[RetryBin]) -> Element:
    delivered, given_up = "Delivered, by the number of attempts", "Given up, by the number of attempts"
    charts = (
        (delivered, histogram(delivered, [_bin(one, one.delivered) for one in bins])),
        (given_up, histogram(given_up, [_bin(one, one.dead_lettered + one.dropped) for one in bins], style="dropped")),
    )
    figures = [tag("figure", drawn, tag("figcaption", title)) for title, drawn in charts]
    return tag("div", *figures, class_="charts")


def _bin(one: RetryBin, ended: int) -> Bin:
    return Bin(str(one.attempts), counted(one.attempts, "attempt"), ended)
