"""Parses lines of segments into events.

An invalid line is kept as the event `malformed`; a line of a newer schema, or of an event that this version does not
know, as the event `newer`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from cns_common.events.schema import SCHEMA_VERSION
from cns_pipeline.schema import DATE, EVENT, EVENT_NAMES, FILE, LINE, MALFORMED, NEWER, event_schema

TEXT = "value"
"""The name of the line column in Spark's text source."""
AT_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, the last year of dates in Spark and Python."""
_READ = "read"
_NEWER = "is_newer"


def parse_lines(lines: DataFrame) -> DataFrame:
    """Turn the columns `value` and `file` into those of `table_schema`.

    An optional column `date` is the date of lines that are kept aside.
    """
    schema = StructType([*event_schema().fields, StructField(LINE, StringType())])
    read = F.from_json(F.col(TEXT), schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": LINE})
    known = lines.withColumn(_READ, read).withColumn(_NEWER, _is_newer())
    events = known.withColumn(_READ, F.when(_is_valid() & _is_known(), F.col(_READ)))  # null: no event
    is_event = F.col(_READ).isNotNull()
    columns = {name: _member(name) for name in event_schema().fieldNames()}
    columns[EVENT] = F.when(is_event, columns[EVENT]).when(F.col(_NEWER), NEWER).otherwise(MALFORMED)
    return events.select(
        *[column.alias(name) for name, column in columns.items()],
        F.when(~is_event, F.col(TEXT)).alias(LINE),
        F.col(FILE),
        F.coalesce(F.to_date(F.timestamp_millis(columns["at_ms"])), _date_aside(lines)).alias(DATE),
    )


def _date_aside(lines: DataFrame) -> Column:
    return F.col(DATE) if DATE in lines.columns else F.lit(None).cast(DateType())


def _is_valid() -> Column:
    """Whether the line has all fields that each event of this schema has."""
    whole = _member(LINE).isNull() & (_member("version") <= SCHEMA_VERSION) & _member(EVENT).isNotNull()
    identified = _member("boot").isNotNull() & _member("sequence").isNotNull()
    dated = _member("at_ms").between(0, AT_MS_MAX)
    return F.coalesce(whole & identified & dated, F.lit(False))


def _is_known() -> Column:
    return F.coalesce(_member(EVENT).isin(*EVENT_NAMES), F.lit(False))


def _is_newer() -> Column:
    """Whether the line is newer, by the version in its text, since its fields may have other types. A new event may
    come without a new version."""
    version = F.get_json_object(F.col(TEXT), "$.version").try_cast(LongType())
    return F.coalesce(version > SCHEMA_VERSION, F.lit(False)) | (_is_valid() & ~_is_known())


def _member(name: str) -> Column:
    return F.col(_READ)[name]
