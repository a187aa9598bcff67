"""Findings of an audit in words, the most severe first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from cns_pipeline.audit.document import Audit, AuditFinding, Gap, LostMessage, QueueFindings

SEVERITIES = ("error", "warning", "note")
IDS_NAMED = 20


def findings(audit: Audit) -> tuple[AuditFinding, ...]:
    """An error is a loss, a changed payload, or a wrong order in a FIFO queue."""
    found = [finding for queue in audit.queues for finding in _queue_findings(queue, audit)]
    found += _gap_findings(audit)
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def _queue_findings(queue: QueueFindings, audit: Audit) -> Iterator[AuditFinding]:
    yield from _losses(queue, audit.lost)
    yield from _order(queue)
    yield from _duplicates(queue)
    yield from _unknown(queue)


def _losses(queue: QueueFindings, lost: tuple[LostMessage, ...]) -> Iterator[AuditFinding]:
    counts = queue.counts
    for cause, n, what in (
        ("missing", counts.missing, "lost: neither received nor removed for a known reason"),
        ("corrupt", counts.corrupt, "received with another payload than was sent"),
    ):
        if n:
            ids = [message.message_id for message in lost if (message.queue, message.cause) == (queue.queue, cause)]
            share = f"{n:,} of {counts.sent:,} messages ({n / counts.sent:.4%})"
            yield AuditFinding(severity="error", queue=queue.queue, text=f"{share} were {what}: {_named(ids, n)}")


def _named(ids: list[str], n: int) -> str:
    shown = ids[:IDS_NAMED]
    if not shown:
        return "their ids are in lost.csv"
    more = n - len(shown)
    return ", ".join(shown) + (f", and {more:,} more in lost.csv" if more else "")


def _order(queue: QueueFindings) -> Iterator[AuditFinding]:
    order = queue.order
    if not order.out_of_order:
        return
    text = (
        f"{order.out_of_order:,} of {order.compared:,} messages ({order.out_of_order_rate:.4%}) were received out of "
        f"order; a message is {order.average_displacement:.4g} places from its right one on average"
    )
    if queue.fifo:
        yield AuditFinding(severity="error", queue=queue.queue, text=text)
    else:
        yield AuditFinding(severity="note", queue=queue.queue, text=f"{text} (a standard queue promises no order)")


def _duplicates(queue: QueueFindings) -> Iterator[AuditFinding]:
    counts = queue.counts
    again = counts.duplicates - counts.repeated
    if again:
        yield AuditFinding(
            severity="note",
            queue=queue.queue,
            text=f"{again:,} receives gave a message out again, as its visibility timeout ended before it was deleted",
        )
    if counts.repeated:
        why = "an attempt id was used again" if queue.fifo else "the queue handed the message to two receivers"
        yield AuditFinding(
            severity="note" if queue.fifo else "warning",
            queue=queue.queue,
            text=f"{counts.repeated:,} receives gave a message out again with the same receive count: {why}",
        )


def _unknown(queue: QueueFindings) -> Iterator[AuditFinding]:
    counts = queue.counts
    if counts.unknown:
        text = (
            f"what became of {counts.unknown:,} messages is unknown, as events are missing or a purge came up to two "
            f"minutes before: the loss rate is between {counts.loss_rate:.4%} and {counts.loss_rate_max:.4%}"
        )
        yield AuditFinding(severity="warning", queue=queue.queue, text=text)
    if counts.unsent:
        text = f"{counts.unsent:,} messages were received whose send is not among the events"
        yield AuditFinding(severity="note", queue=queue.queue, text=text)
    if counts.waiting:
        yield AuditFinding(severity="note", queue=queue.queue, text=f"{counts.waiting:,} messages wait to be received")


def _gap_findings(audit: Audit) -> Iterator[AuditFinding]:
    for gap in audit.gaps:
        yield AuditFinding(
            severity="note" if gap.queue or gap.events is None else "warning", queue=gap.queue, text=_gap(gap)
        )
    if audit.gaps_left_out:
        yield AuditFinding(severity="warning", queue="", text=f"{audit.gaps_left_out:,} more gaps are in gaps.csv")


def _gap(gap: Gap) -> str:
    since, until = utc(gap.from_ms), None if gap.to_ms is None else utc(gap.to_ms)
    if gap.queue:
        return f"the audit was off, or not on in all processes, from {since}" + (f" to {until}" if until else " on")
    process = f"process {gap.process or 'unknown'} (boot {gap.boot})"
    if until is None:
        return f"{process} may still run: events since {since} may not be ingested yet"
    return f"{gap.events:,} events of {process} between {since} and {until} are missing"


def utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
