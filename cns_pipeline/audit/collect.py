"""Runs the audit: reads the events, writes tables of pairs, groups, queues and lost messages, and returns the document.

Each table is computed from the written one before it, so that events are grouped by message only once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_pipeline.audit.document import Audit
from cns_pipeline.audit.frames import AuditFrames, make_document
from cns_pipeline.audit.options import AuditOptions
from cns_pipeline.audit.tables import AuditTables
from cns_pipeline.batches import removed_until_ms
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import END_MS, Period
from cns_pipeline.read import read_events
from cns_pipeline.storage import Storage
from cns_pipeline.transforms.audit.figures import group_figures, lost_messages, pair_figures, queue_figures
from cns_pipeline.transforms.audit.gaps import audits_off, boots, gaps, open_ends
from cns_pipeline.transforms.audit.message_outcome import (
    accounted,
    at_rest,
    empty_times,
    in_period,
    judged,
    purge_margins,
    purged,
    purges,
    unaccounted,
)
from cns_pipeline.transforms.audit.messages import messages
from cns_pipeline.transforms.audit.order import order

LOOK_MS = 15 * 86_400_000
"""The time before and after the period for which events are read. A message sent in it may be received until its
retention ends; a message received in it was sent at most that long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvents:
    """`events` are those of the period and of LOOK_MS around it. `from_the_first`: no older events exist."""

    events: DataFrame
    from_the_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """The events that decide the fates of messages. `end_ms` is the time of the newest of all events."""

    selected: DataFrame
    gaps: DataFrame
    audits_off: DataFrame
    end_ms: int | None


def read_audit_events(spark: SparkSession, paths: PipelinePaths, period: Period) -> AuditEvents:
    reaches_back = period.since_ms <= LOOK_MS
    from_the_first = reaches_back and not removed_until_ms(Storage(spark), paths)
    since_ms = None if reaches_back else period.since_ms - LOOK_MS
    until_ms = None if period.until_ms == END_MS else period.until_ms + LOOK_MS
    return AuditEvents(events=read_events(spark, paths, since_ms, until_ms), from_the_first=from_the_first)


def audit(read: AuditEvents, tables: AuditTables, options: AuditOptions, made_at_ms: int) -> Audit:
    """Write the tables and the document. Returns the document."""
    evidence = _evidence(read, options.queues)
    period = options.period
    found = tables.keep("messages", in_period(messages(evidence.selected), period.since_ms, period.until_ms))
    fates = _fates(found, evidence, options)
    pairs = tables.write("pairs", pair_figures(order(found)), "queue", "group", "sender", "receiver")
    all_groups = tables.keep("groups", group_figures(fates, pairs))
    hidden = evidence.gaps.unionByName(evidence.audits_off, allowMissingColumns=True)
    frames = AuditFrames(
        queues=tables.write("queues", queue_figures(all_groups), "queue"),
        groups=tables.write("groups", all_groups.where("fifo"), "queue", "group"),
        pairs=pairs,
        lost=tables.write("lost", lost_messages(fates), "queue", "sent_ms", "message_id"),
        gaps=tables.write("gaps", hidden, "from_ms", "boot", "queue"),
    )
    document = make_document(frames, options, made_at_ms, evidence.end_ms)
    tables.publish(msgspec.json.encode(document))
    return document


def _evidence(read: AuditEvents, queues: tuple[str, ...]) -> _Evidence:
    events = read.events
    starts = boots(events).persist()
    newest = starts.agg(F.max("last_ms").alias("last_ms")).first()
    end_ms: int | None = newest["last_ms"] if newest is not None else None
    missing = gaps(events, starts, from_the_first=read.from_the_first)
    selected = _select_queues(events, queues)
    return _Evidence(
        selected=selected,
        gaps=missing.unionByName(open_ends(events, starts, end_ms or 0)).persist(),
        audits_off=audits_off(selected),
        end_ms=end_ms,
    )


def _fates(found: DataFrame, evidence: _Evidence, options: AuditOptions) -> DataFrame:
    rested = at_rest(
        purged(unaccounted(found), purges(evidence.selected)),
        empty_times(evidence.selected),
        evidence.end_ms or 0,
        lost_after_ms=options.lost_after_ms,
        all_at_rest=options.all_at_rest,
    )
    queue_spans = evidence.audits_off.unionByName(purge_margins(evidence.selected))
    return accounted(found).unionByName(judged(rested, evidence.gaps, queue_spans))


def _select_queues(events: DataFrame, queues: tuple[str, ...]) -> DataFrame:
    """`queues` are names or ARNs."""
    if not queues:
        return events
    named = [(F.col("queue") == queue) | F.col("queue").endswith(f":{queue}") for queue in queues]
    return events.where(reduce(or_, named))
