"""Measures time and memory of an audit of one large queue: the whole process tree, Java and Python.

python -m lab.bench.order.large [--messages 10000000] [--order almost|shuffled] [--keep DIR]

`almost`: each hundredth message changes places with the next one, one is received last of all, and one in a million is
lost, so the right answer is known. `shuffled`: received in random order.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from cns_pipeline.audit.tables import ROW_GROUP_BYTES
from cns_pipeline.batches import Contents, event_table
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.schema import DATE, EVENT, table_schema
from cns_pipeline.session import open_session
from cns_pipeline.storage import Storage
from cns_pipeline.tables.table import TableWriter
from lab.harness.processes import ROOT
from lab.harness.usage import cpu_s, resident_bytes, tree

QUEUE = "arn:aws:sqs:us-east-1:111111111111:large"
START_MS = 20_000 * 86_400_000
MESSAGES_PER_MS = 2
SWAPPED = 100
LOST = 1_000_000
LAST = 5
"""The message that is received last of all; a lost one is the eighth of each million."""
SENDER, RECEIVER = "5e4d" * 4, "4ece" * 4
MIB = 1 << 20
POLL_S = 0.1
ORDERS = ("almost", "shuffled")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--order", choices=ORDERS, default="almost")
    parser.add_argument("--keep", type=Path, help="make the log here, unless it is there, and keep it")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_table(options.make, options.messages, options.order)
        return 0
    with directory(options.keep) as out:
        if not (out / "events").exists():
            words = ["--make", str(out), "--messages", str(options.messages), "--order", options.order]
            subprocess.run([sys.executable, "-m", "lab.bench.order.large", *words], check=True, cwd=ROOT)
        print(measured(out, options.messages, options.order))
    return 0


@contextmanager
def directory(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept.absolute()
        return
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="audit-", dir=ROOT / "build") as scratch:
        yield Path(scratch)


def measured(out: Path, messages: int, order: str) -> str:
    """Audit the log, and check what is known of it."""
    command = [sys.executable, "-m", "cns_cli.main", "pipeline", "audit", "--data", str(out), "--out", str(out)]
    began = time.monotonic()
    process = subprocess.Popen([*command, "--at-rest"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    peak_bytes, used_s = 0, dict[int, float]()
    while process.poll() is None:
        pids = tree(process.pid)
        peak_bytes = max(peak_bytes, sum([resident_bytes(pid) for pid in pids]))
        used_s |= {pid: used for pid in pids if (used := cpu_s(pid))}
        time.sleep(POLL_S)  # the span between two samples of the memory
    took_s = time.monotonic() - began
    document = json.loads((out / "audit" / "audit.json").read_bytes())
    (queue,) = document["queues"]
    found, figures = queue["order"], queue["counts"]
    lost = -(-(messages - 7) // LOST)
    if (figures["sent"], figures["lost"]) != (messages, lost):
        raise SystemExit(f"{lost} of {messages} messages are lost, and the audit says {figures}")
    if order == "almost" and found["out_of_order"] != messages // SWAPPED + 1:
        raise SystemExit(f"{messages // SWAPPED + 1} messages are out of order, and the audit says {found}")
    return (
        f"{messages:,} messages, {order}: {took_s:.1f} s, {sum(used_s.values()):.1f} CPU s, "
        f"peak {peak_bytes / MIB:,.0f} MiB in all processes; "
        f"{figures['lost']} lost, out of order {found['out_of_order_rate']:.4%}, "
        f"displacement {found['average_displacement']:.2f}"
    )


def make_table(out: Path, messages: int, order: str) -> None:
    with open_session("bench") as spark:
        writer = TableWriter(event_table(Storage(spark), PipelinePaths(out)), lambda: START_MS, has_lock=True)
        written = writer.new_directory()
        writes = log(spark, messages, order).write.partitionBy(DATE, EVENT)
        writes.option("parquet.block.size", ROW_GROUP_BYTES).parquet(str(written))
        writer.add(written, Contents(spans=(), files=()))


def log(spark: SparkSession, messages: int, order: str) -> DataFrame:
    """The events of one sender and one receiver that both stopped."""
    number = F.col("id")
    sends = spark.range(messages).select(*_message("message.sent", SENDER, number + 1, number))
    received = _positions(spark.range(messages).where(number % LOST != 7), messages, order)
    last = F.col("position") * 2
    receives = received.select(*_message("message.received", RECEIVER, last + 1, F.col("position") + messages))
    deletes = received.select(*_message("message.deleted", RECEIVER, last + 2, F.col("position") + messages))
    n = messages - -(-(messages - 7) // LOST)
    facts = [
        _fact(spark, boot, event, number, messages)
        for boot, events in ((SENDER, messages), (RECEIVER, 2 * n))
        for event, number in (("segment.opened", 0), ("segment.sealed", events))
    ]
    frame = sends
    for other in (receives, deletes, *facts):
        frame = frame.unionByName(other, allowMissingColumns=True)
    columns = {field.name: field for field in table_schema().fields}
    return frame.select(
        *[
            (F.col(name) if name in frame.columns else F.lit(None)).cast(field.dataType).alias(name)
            for name, field in columns.items()
        ]
    )


def _positions(ids: DataFrame, messages: int, order: str) -> DataFrame:
    """Add `position`, from 0: the place in the order of receives. Its numbers may leave some out if `almost`."""
    number = F.col("id")
    if order == "shuffled":
        place = F.row_number().over(Window.orderBy(F.xxhash64(number, F.lit(7)))) - 1
        return ids.select("id", place.cast("long").alias("position"))
    swapped = F.when(number % SWAPPED == 0, number + 1).when(number % SWAPPED == 1, number - 1).otherwise(number)
    lost_before = F.floor((number + LOST - 8) / LOST)
    place = F.when(number == LAST, messages).otherwise(swapped)
    shifted = place - lost_before - F.when(number > LAST, 1).otherwise(0)
    at_end = F.lit(messages - 1 - -(-(messages - 7) // LOST))
    return ids.select("id", F.when(number == LAST, at_end).otherwise(shifted).cast("long").alias("position"))


def _message(event: str, boot: str, sequence: Column, ms: Column) -> list[Column]:
    digest = F.md5(F.col("id").cast("string"))
    ids = [F.substring(digest, at, n) for at, n in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    at_ms = (F.lit(START_MS) + F.floor(ms / MESSAGES_PER_MS)).cast("long")
    return [
        F.col("id"),
        F.lit(1).alias("version"),
        F.lit(boot).alias("boot"),
        sequence.alias("sequence"),
        F.lit(event).alias(EVENT),
        at_ms.alias("at_ms"),
        F.lit(QUEUE).alias("queue"),
        F.concat_ws("-", *ids).alias("message_id"),
        F.substring(digest, 1, 8).alias("checksum"),
        F.lit(1 if event == "message.received" else None).cast("long").alias("receive_count"),
        F.to_date(F.timestamp_millis(at_ms)).alias(DATE),
    ]


def _fact(spark: SparkSession, boot: str, event: str, last: int, messages: int) -> DataFrame:
    at_ms = F.lit(START_MS + (2 * messages if last else 0)).cast("long")
    return spark.range(1).select(
        F.lit(1).alias("version"),
        F.lit(boot).alias("boot"),
        F.lit(0).alias("sequence"),
        F.lit(event).alias(EVENT),
        at_ms.alias("at_ms"),
        F.lit("bench").alias("process"),
        F.lit(1).alias("first_sequence"),
        F.lit(last or None).cast("long").alias("last_sequence"),
        F.lit(bool(last)).alias("stopped"),
        F.lit(False).alias("recovered"),
        F.to_date(F.timestamp_millis(at_ms)).alias(DATE),
    )


if __name__ == "__main__":
    sys.exit(main())
