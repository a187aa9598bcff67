"""Lines of segments as events; a line that is none is kept whole under the name `malformed`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cns_common.events.schema import SCHEMA_VERSION
from cns_pipeline.schema import DATE, EVENT, EVENT_NAMES, FILE, LINE, MALFORMED, event_schema

TEXT = "value"
"""The column that Spark's text source has its lines in."""
_READ = "read"


def parsed(lines: DataFrame) -> DataFrame:
    """From `value` and `file` to the columns of `table_schema`."""
    schema = StructType([*event_schema().fields, StructField(LINE, StringType())])
    read = F.from_json(F.col(TEXT), schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": LINE})
    understood = _understood()
    columns = {name: F.when(understood, _member(name)) for name in event_schema().fieldNames()}
    columns[EVENT] = columns[EVENT].otherwise(MALFORMED)
    return lines.withColumn(_READ, read).select(
        *[column.alias(name) for name, column in columns.items()],
        F.when(~understood, F.col(TEXT)).alias(LINE),
        F.col(FILE),
        F.to_date(F.timestamp_millis(columns["at_ms"])).alias(DATE),
    )


def _understood() -> Column:
    whole = _member(LINE).isNull()
    known = (_member("version") <= SCHEMA_VERSION) & _member(EVENT).isin(*EVENT_NAMES)
    identified = _member("boot").isNotNull() & _member("sequence").isNotNull() & _member("at_ms").isNotNull()
    return F.coalesce(whole & known & identified, F.lit(False))


def _member(name: str) -> Column:
    return F.col(_READ)[name]
