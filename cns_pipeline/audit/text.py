"""The audit as text for a terminal: the findings, then a row for each queue."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.table import Table

from cns_pipeline.audit.document import Audit, QueueFindings
from cns_pipeline.period import Period

WIDTH_CHARS = 160
QUEUES_SHOWN = 40
_COLUMNS = (
    "queue",
    "sent",
    "received",
    "ended",
    "waiting",
    "unknown",
    "lost",
    "loss",
    "duplicates",
    "λ",
    "out of order",
    "displacement",
    "send/s",
    "receive+delete/s",
)


def format_audit(audit: Audit, directory: str) -> str:
    """`directory`: where the tables are."""
    period = Period(audit.since_ms, audit.until_ms)
    if not audit.queues:
        return f"no queue has Audit=on, or nothing was sent to one: {period}\n{directory}"
    sent = sum([queue.counts.sent for queue in audit.queues])
    lines = [f"{len(audit.queues):,} audited queues, {sent:,} messages sent: {period}"]
    lines += [_finding(finding.severity, finding.queue, finding.text) for finding in audit.findings]
    if not audit.findings:
        lines.append("nothing was lost, changed or received out of order")
    table = _table(audit.queues[:QUEUES_SHOWN])
    more = len(audit.queues) - QUEUES_SHOWN
    if more > 0:
        table += f"{more:,} more queues are in queues.csv\n"
    return "\n".join([*lines, "", f"{table}{directory}"])


def _finding(severity: str, queue: str, text: str) -> str:
    return f"{severity}: {f'{_name(queue)}: ' if queue else ''}{text}"


def _table(queues: tuple[QueueFindings, ...]) -> str:
    table = Table(box=None, pad_edge=False)
    for title in _COLUMNS:
        table.add_column(title, justify="left" if title == "queue" else "right", overflow="fold")
    for queue in queues:
        table.add_row(*_cells(queue))
    text = StringIO()
    Console(file=text, width=WIDTH_CHARS).print(table)
    return text.getvalue()


def _cells(queue: QueueFindings) -> tuple[str, ...]:
    counts, order = queue.counts, queue.order
    ended = counts.expired + counts.purged + counts.dead_lettered + counts.moved + counts.queue_deleted
    return (
        _name(queue.queue),
        *[f"{n:,}" for n in (counts.sent, counts.received, ended, counts.waiting, counts.unknown, counts.lost)],
        _share(counts.loss_rate),
        f"{counts.duplicates:,}",
        _share(counts.duplicate_rate),
        _share(order.out_of_order_rate),
        "–" if order.average_displacement is None else f"{order.average_displacement:.4g}",
        _per_s(counts.send_per_s),
        _per_s(counts.receive_delete_per_s),
    )


def _name(queue: str) -> str:
    return queue.rpartition(":")[2]


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.4%}"


def _per_s(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:,.1f}"
