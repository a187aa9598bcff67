"""The Spark schema of the archive table, derived from `ArchiveRow`, and its partition columns."""

from __future__ import annotations

from typing import get_type_hints

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from cns_pipeline.archive.rows import ArchivedAttribute, ArchiveRow

TOPIC = "topic"
DATE = "date"
IDENTITY = ("archive", "key")
"""The columns that identify a message. The table has each message once."""
REPLAY_ORDER = ("archive_began_ms", "archive", "key")

_STRING = StringType()
_ATTRIBUTE = StructType([StructField(name, _STRING, nullable=False) for name in ArchivedAttribute._fields])
_TYPES: dict[object, DataType] = {
    str: _STRING,
    str | None: _STRING,
    int: LongType(),
    int | None: LongType(),
    bool: BooleanType(),
    dict[str, str]: MapType(_STRING, _STRING, valueContainsNull=False),
    list[ArchivedAttribute]: ArrayType(_ATTRIBUTE, containsNull=False),
}


def archive_schema() -> StructType:
    return StructType([StructField(name, _TYPES[hint]) for name, hint in get_type_hints(ArchiveRow).items()])
