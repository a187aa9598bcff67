"""Builds the document of an audit from the worst rows of each of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from cns_pipeline.audit.document import (
    Audit,
    AuditCounts,
    Gap,
    GroupAudit,
    LostMessage,
    Order,
    PairAudit,
    QueueFindings,
)
from cns_pipeline.audit.findings import findings
from cns_pipeline.audit.options import AuditOptions

QUEUES_MAX = 1_000
ROWS_MAX = 20
"""Limits of the document's rows: groups, pairs, lost messages and gaps."""
_PAIR = ("queue", "group", "sender", "receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFrames:
    """The tables that the audit wrote."""

    queues: DataFrame
    groups: DataFrame
    pairs: DataFrame
    lost: DataFrame
    gaps: DataFrame


def make_document(frames: AuditFrames, options: AuditOptions, made_at_ms: int, last_event_ms: int | None) -> Audit:
    queues, groups, pairs = _queues(frames.queues), _groups(frames.groups), _pairs(frames.pairs)
    lost, gaps = _lost(frames.lost), _gaps(frames.gaps)
    known = frames.gaps.agg(F.sum("events").alias("events")).first()
    audit = Audit(
        made_at_ms=made_at_ms,
        since_ms=options.period.since_ms,
        until_ms=options.period.until_ms,
        last_event_ms=last_event_ms,
        at_rest=options.all_at_rest,
        queues=queues,
        queues_left_out=_left_out(frames.queues, len(queues), QUEUES_MAX),
        groups=groups,
        groups_left_out=_left_out(frames.groups, len(groups), ROWS_MAX),
        pairs=pairs,
        pairs_left_out=_left_out(frames.pairs, len(pairs), ROWS_MAX),
        lost=lost,
        lost_left_out=_left_out(frames.lost, len(lost), ROWS_MAX),
        gaps=gaps,
        gaps_left_out=_left_out(frames.gaps, len(gaps), ROWS_MAX),
        missing_events=(known["events"] if known is not None else None) or 0,
        findings=(),
    )
    return msgspec.structs.replace(audit, findings=findings(audit))


def _left_out(frame: DataFrame, rows: int, rows_max: int) -> int:
    return 0 if rows < rows_max else frame.count() - rows


def _queues(queues: DataFrame) -> tuple[QueueFindings, ...]:
    rows = queues.orderBy(*_worst_first(), "queue").take(QUEUES_MAX)
    return tuple(
        [QueueFindings(queue=row["queue"], fifo=row["fifo"], counts=_counts(row), order=_order(row)) for row in rows]
    )


def _groups(groups: DataFrame) -> tuple[GroupAudit, ...]:
    rows = groups.orderBy(*_worst_first(), "queue", "group").take(ROWS_MAX)
    return tuple(
        [GroupAudit(queue=row["queue"], group=row["group"], counts=_counts(row), order=_order(row)) for row in rows]
    )


def _pairs(pairs: DataFrame) -> tuple[PairAudit, ...]:
    rows = pairs.orderBy(F.desc("out_of_order"), F.desc("displacement_sum"), F.desc("compared"), *_PAIR).take(ROWS_MAX)
    return tuple([PairAudit(**{name: row[name] for name in _PAIR}, order=_order(row)) for row in rows])


def _lost(lost: DataFrame) -> tuple[LostMessage, ...]:
    rows = lost.orderBy("queue", "sent_ms", "message_id").take(ROWS_MAX)
    return tuple([LostMessage(**row.asDict()) for row in rows])


def _gaps(gaps: DataFrame) -> tuple[Gap, ...]:
    """The gaps that end last: a gap hides the fate of messages sent before its end."""
    rows = gaps.orderBy(F.desc_nulls_first("to_ms"), F.desc("from_ms"), "boot", "queue").take(ROWS_MAX)
    texts = ("process", "queue", "boot")
    return tuple([Gap(**{**_members(Gap, row), **{name: row[name] or "" for name in texts}}) for row in rows])


def _worst_first() -> tuple[Column, ...]:
    return tuple([F.desc(name) for name in ("lost", "unknown", "out_of_order", "repeated", "duplicates", "sent")])


def _counts(row: Row) -> AuditCounts:
    return AuditCounts(**_members(AuditCounts, row))


def _order(row: Row) -> Order:
    return Order(**_members(Order, row))


def _members(struct: type[msgspec.Struct], row: Row) -> dict[str, Any]:
    return {name: row[name] for name in struct.__struct_fields__}
