"""The audit of random small logs equals the oracle's, figure for figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cns_common.durations import HOUR_MS
from cns_pipeline.audit.collect import AuditEvents, audit
from cns_pipeline.audit.options import AuditOptions
from cns_pipeline.audit.tables import AuditTables
from cns_pipeline.paths import PipelinePaths
from tests.pipeline.audit.frames import frame_of
from tests.pipeline.audit.oracle import Oracle
from tests.pipeline.audit.random_logs import random_log

LOGS = 1_000
"""An hour each."""
LOST_AFTER_MS = 10 * 24 * HOUR_MS


@pytest.mark.extended
def test_a_thousand_logs(spark: SparkSession, out: Path) -> None:
    lines = [line for number in range(LOGS) for line in random_log(number)]
    oracle = Oracle(lines, LOST_AFTER_MS)
    read = AuditEvents(events=frame_of(spark, lines).persist(), from_the_first=True)
    found = audit(read, AuditTables(spark, PipelinePaths(out)), AuditOptions(lost_after_ms=LOST_AFTER_MS), made_at_ms=1)
    counts = {
        queue.queue: {name: getattr(queue.counts, name) for name in oracle.counts(queue.queue)}
        for queue in found.queues
    }
    expected = {queue: oracle.counts(queue) for queue in oracle.messages}
    assert all(any(figures[name] for figures in counts.values()) for name in oracle.counts("")), "a figure is always 0"
    assert counts == {queue: figures for queue, figures in expected.items() if figures["sent"] or figures["unsent"]}
    pairs = spark.read.parquet(str(out / "audit" / "pairs")).collect()
    assert {
        (row["queue"], row["group"], row["sender"], row["receiver"]): (
            row["compared"],
            row["out_of_order"],
            row["displacement_sum"],
        )
        for row in pairs
    } == {(queue, *pair): figures for queue in oracle.messages for pair, figures in oracle.pairs(queue).items()}
    lost = spark.read.parquet(str(out / "audit" / "lost")).collect()
    assert {(row["queue"], row["message_id"], row["cause"]) for row in lost} == oracle.lost()
