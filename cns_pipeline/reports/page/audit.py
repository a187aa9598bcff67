"""The audit section: lost, repeated and reordered messages by queue, group and pair of processes."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cns_common.charts.markup import tag
from cns_pipeline.audit.document import Audit, GroupAudit, Order, PairAudit, QueueFindings
from cns_pipeline.period import Period
from cns_pipeline.reports.page.tables import (
    Cell,
    arn,
    at,
    details,
    foreign,
    number_columns,
    numbers,
    part,
    section,
    table,
    text_columns,
    words,
)

_COUNTS = number_columns("sent", "received", "deleted", "lost", "loss rate", "unknown", "duplicates", "duplicate rate")
_ORDER = number_columns("compared", "out of order", "rate", "displacement")
_LABELS = {"error": "label-lost", "warning": "label-slow", "note": "label-unsure"}


def audit_section(audit: Audit) -> Element:
    said = [
        tag("li", tag("span", one.severity, class_=_LABELS[one.severity]), " ", foreign(one.text))
        for one in audit.findings
    ]
    return section(
        "audit",
        "Audit of queues",
        tag("p", f"Audited: {Period(audit.since_ms, audit.until_ms)}, by the time of the send.", class_="muted"),
        tag("ul", *said, class_="findings") if said else tag("p", "Nothing lost, repeated or out of order."),
        _queues(audit),
        details("Groups", _groups(audit)) if audit.groups else None,
        details("Senders and receivers", _pairs(audit)) if audit.pairs else None,
        details("Lost messages", _lost(audit)) if audit.lost else None,
    )


def _queues(audit: Audit) -> Element:
    columns = (*text_columns("queue"), *_COUNTS, *_ORDER, *number_columns("sent/s", "received and deleted/s"))
    rows = [
        (
            arn(one.queue),
            *_counts(one),
            *_order(one.order),
            _rate(one.counts.send_per_s),
            _rate(one.counts.receive_delete_per_s),
        )
        for one in audit.queues
    ]
    return table("Queues with Audit=on", columns, rows)


def _groups(audit: Audit) -> Element:
    rows = [(arn(one.queue), words(one.group), *_counts(one), *_order(one.order)) for one in audit.groups]
    return table("Message groups", (*text_columns("queue", "group"), *_COUNTS, *_ORDER), rows, audit.groups_left_out)


def _pairs(audit: Audit) -> Element:
    columns = (*text_columns("queue", "group", "sender", "receiver"), *_ORDER)
    return table("Pairs of processes", columns, [_pair(one) for one in audit.pairs], audit.pairs_left_out)


def _pair(one: PairAudit) -> tuple[Cell, ...]:
    return (arn(one.queue), words(one.group), words(one.sender), words(one.receiver), *_order(one.order))


def _lost(audit: Audit) -> Element:
    columns = text_columns("queue", "message", "group", "sent", "cause")
    rows = [
        (arn(one.queue), words(one.message_id), words(one.group), at(one.sent_ms), words(one.cause))
        for one in audit.lost
    ]
    return table("Lost messages", columns, rows, audit.lost_left_out)


def _counts(one: QueueFindings | GroupAudit) -> tuple[Cell, ...]:
    counts = one.counts
    return (
        *numbers(counts.sent, counts.received, counts.deleted, counts.lost),
        part(counts.loss_rate),
        *numbers(counts.unknown, counts.duplicates),
        part(counts.duplicate_rate),
    )


def _order(order: Order) -> tuple[Cell, ...]:
    average = order.average_displacement
    return (
        *numbers(order.compared, order.out_of_order),
        part(order.out_of_order_rate),
        Cell("–" if average is None else f"{average:.3g}", -1 if average is None else average),
    )


def _rate(per_s: float | None) -> Cell:
    return Cell("–" if per_s is None else f"{per_s:,.1f}", -1 if per_s is None else per_s)
