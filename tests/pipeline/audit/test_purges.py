"""Purges: what they may have ended is not lost, also where the clocks of sender and purger differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cns_common.durations import DAY_MS
from cns_common.events.audit_events import EndCause, MessageEnded, MessageSent, QueueAudited
from cns_common.events.schema import SegmentSealed
from cns_pipeline.audit.collect import AuditEvents, audit
from cns_pipeline.audit.options import AuditOptions
from cns_pipeline.audit.tables import AuditTables
from cns_pipeline.paths import PipelinePaths
from tests.pipeline.audit.frames import frame_of
from tests.pipeline.audit.oracle import Oracle
from tests.pipeline.audit.random_logs import Line, LogEvent, counted, queue_of

PURGED_MS = 1_000_000_000
QUEUE = queue_of(1, fifo=False)
SENT_MS: Mapping[str, int] = {
    "before": PURGED_MS - 1,
    "as it was purged": PURGED_MS,
    "by a clock one minute ahead": PURGED_MS + 60_000,
    "by a clock two minutes ahead": PURGED_MS + 120_000,
    "after": PURGED_MS + 120_001,
}


def log(cause: EndCause) -> list[Line]:
    """A purge amid sends, and a queue that is empty in the end."""
    ends = [MessageEnded(at_ms=PURGED_MS, queue=QUEUE, cause=cause)]
    sends = [MessageSent(at_ms=ms, queue=QUEUE, message_id=name, size_bytes=1) for name, ms in SENT_MS.items()]
    return segment([*ends, *sends, counted(QUEUE, PURGED_MS + 600_000)])


def segment(events: Sequence[LogEvent]) -> list[Line]:
    sealed = SegmentSealed(
        at_ms=events[-1].at_ms,
        process="p",
        first_sequence=1,
        last_sequence=len(events),
        events=len(events),
        torn_bytes=0,
        recovered=False,
        stopped=True,
    )
    return [*[Line("b", number, event) for number, event in enumerate(events, 1)], Line("b", 0, sealed)]


@pytest.mark.parametrize("cause", ["purged", "queue_deleted"])
def test_a_send_by_a_clock_that_is_ahead(spark: SparkSession, out: Path, cause: EndCause) -> None:
    lines = log(cause)
    read = AuditEvents(events=frame_of(spark, lines), from_the_first=True)
    options = AuditOptions(lost_after_ms=15 * DAY_MS)
    found = audit(read, AuditTables(spark, PipelinePaths(out)), options, made_at_ms=1)
    (queue,) = found.queues
    counts = queue.counts
    assert (counts.sent, getattr(counts, cause), counts.unknown, counts.missing) == (5, 2, 2, 1)
    assert [message.message_id for message in found.lost] == ["after"]
    expected = Oracle(lines, options.lost_after_ms).counts(QUEUE)
    assert {name: getattr(counts, name) for name in expected} == expected


@pytest.mark.parametrize("cause", ["purged", "queue_deleted"])
def test_an_empty_queue_has_nothing_to_purge(spark: SparkSession, out: Path, cause: EndCause) -> None:
    """A message that was gone before did not end by the purge. A queue that is made again was audited all the time."""
    audited = [
        QueueAudited(at_ms=at_ms, queue=QUEUE, audit="on", complete_from_ms=at_ms) for at_ms in (1, PURGED_MS + 1_000)
    ]
    names = {"lost": 100_000, "counted as the clocks differ": PURGED_MS - 120_000, "purged": PURGED_MS - 1}
    sends = [MessageSent(at_ms=at_ms, queue=QUEUE, message_id=name, size_bytes=1) for name, at_ms in names.items()]
    purge = MessageEnded(at_ms=PURGED_MS, queue=QUEUE, cause=cause)
    empty = [counted(QUEUE, 200_000), counted(QUEUE, PURGED_MS - 60_000)]
    lines = segment([audited[0], sends[0], empty[0], sends[1], empty[1], sends[2], purge, audited[1]])
    read = AuditEvents(events=frame_of(spark, lines), from_the_first=True)
    found = audit(read, AuditTables(spark, PipelinePaths(out)), AuditOptions(), made_at_ms=1)
    (queue,) = found.queues
    counts = queue.counts
    assert (counts.sent, getattr(counts, cause), counts.unknown, counts.missing) == (3, 2, 0, 1)
    assert [message.message_id for message in found.lost] == ["lost"]
    assert Oracle(lines[:-2], AuditOptions().lost_after_ms).counts(QUEUE)[cause] == 2
