"""The tables of an audit, which replace those of the last one together.

out/audit/audit.json           the document
out/audit/queues/, queues.csv  and so for groups, pairs, lost messages and gaps
out/audit.new/                 what an audit writes; the next one removes what a killed one left
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from cns_pipeline.paths import PipelinePaths
from cns_pipeline.storage import Storage

DOCUMENT = "audit.json"
CSV_PART = ".csv"
ROW_GROUP_BYTES = 16 * 1024 * 1024
"""The memory of a task that writes Parquet. Spark's 128 MiB are too many for the heap of a local session."""


class AuditTables:
    def __init__(self, spark: SparkSession, paths: PipelinePaths) -> None:
        self._spark = spark
        self._storage = Storage(spark)
        self._target = paths.audit
        self._written = paths.out / "audit.new"
        self._scratch = self._written / "scratch"
        self._storage.delete(self._written)

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Write what is needed only until the end of the audit; return what was written."""
        return self._write(frame, f"{self._scratch}/{name}")

    def write(self, name: str, frame: DataFrame, *order_by: str) -> DataFrame:
        """Write a table as Parquet and as one CSV file, in order; return what was written."""
        ordered = frame.repartition(1).sortWithinPartitions(*order_by)
        written = self._write(ordered, f"{self._written / name}")
        parts = self._scratch / f"{name}.csv"
        written.coalesce(1).write.csv(str(parts), header=True)
        (part,) = [file for file in self._storage.names(parts) if file.endswith(CSV_PART)]
        self._storage.rename(parts / part, self._written / f"{name}.csv")
        return written

    def publish(self, document: bytes) -> None:
        """Put the tables and the document in the place of the last audit's."""
        self._storage.delete(self._scratch)
        self._storage.write(self._written / DOCUMENT, document)
        self._storage.delete(self._target)
        self._storage.rename(self._written, self._target)

    def _write(self, frame: DataFrame, directory: str) -> DataFrame:
        frame.write.option("parquet.block.size", ROW_GROUP_BYTES).parquet(directory)
        return self._spark.read.schema(frame.schema).parquet(directory)
