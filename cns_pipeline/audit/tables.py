"""The tables of an audit, which replace those of the last audit in one step.

out/audit/audit.json           the document
out/audit/queues/, queues.csv  the same for groups, pairs, lost messages and gaps
out/audit.new/                 the directory of a running audit; the next audit removes it if this one is killed
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from cns_pipeline.paths import PipelinePaths
from cns_pipeline.storage import Storage

DOCUMENT = "audit.json"
CSV_PART = ".csv"
ROW_GROUP_BYTES = 16 * 1024 * 1024
"""The buffer of a task that writes Parquet: Spark's 128 MiB are too much for the heap of a local session."""


class AuditTables:
    def __init__(self, spark: SparkSession, paths: PipelinePaths) -> None:
        self._spark = spark
        self._storage = Storage(spark)
        self._target = paths.audit
        self._written = paths.out / "audit.new"
        self._scratch = self._written / "scratch"
        self._storage.delete(self._written)

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Write a frame that is needed only during the audit. Returns the written frame."""
        return self._write(frame, f"{self._scratch}/{name}")

    def write(self, name: str, frame: DataFrame, *order_by: str) -> DataFrame:
        """Write a table as Parquet and as one sorted CSV file. Returns the written frame."""
        ordered = frame.repartition(1).sortWithinPartitions(*order_by)
        written = self._write(ordered, f"{self._written / name}")
        parts = self._scratch / f"{name}.csv"
        written.coalesce(1).write.csv(str(parts), header=True)
        (part,) = [file for file in self._storage.names(parts) if file.endswith(CSV_PART)]
        self._storage.rename(parts / part, self._written / f"{name}.csv")
        return written

    def publish(self, document: bytes) -> None:
        """Replace the tables and the document of the last audit."""
        self._storage.delete(self._scratch)
        self._storage.write(self._written / DOCUMENT, document)
        self._storage.delete(self._target)
        self._storage.rename(self._written, self._target)

    def _write(self, frame: DataFrame, directory: str) -> DataFrame:
        frame.write.option("parquet.block.size", ROW_GROUP_BYTES).parquet(directory)
        return self._spark.read.schema(frame.schema).parquet(directory)
