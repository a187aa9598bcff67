"""The Spark schema of events, derived from `cns_common.events.schema`, the only definition of events."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cns_common.events.schema import EVENTS, Origin

_TYPES: dict[type, DataType] = {int: LongType(), float: DoubleType(), bool: BooleanType(), str: StringType()}
EVENT = "event"
LINE = "line"
"""The column for the text of a line that was kept aside; null for events."""
FILE = "file"
DATE = "date"
MALFORMED = "malformed"
"""The event name of an invalid line."""
NEWER = "newer"
"""The event name of a line that a newer version of the service wrote."""

EVENT_NAMES: tuple[str, ...] = tuple([str(event.__struct_config__.tag) for event in EVENTS])


def event_schema() -> StructType:
    """Return each field of all events once, the common ones first."""
    types = {**_fields(Origin), EVENT: StringType()}
    for event in EVENTS:
        for name, data_type in _fields(event).items():
            if types.setdefault(name, data_type) != data_type:
                raise TypeError(f"the field {name} has different types in different events")
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


def table_schema() -> StructType:
    """Return the columns that `ingest` writes: the fields of events, and their segment."""
    added = [StructField(LINE, StringType()), StructField(FILE, StringType()), StructField(DATE, DateType())]
    return StructType([*event_schema().fields, *added])


def _fields(struct: type[msgspec.Struct]) -> dict[str, DataType]:
    hints = get_type_hints(struct)
    return {name: _type(hints[name]) for name in struct.__struct_fields__}


def _type(hint: Any) -> DataType:
    if get_origin(hint) is tuple:
        return ArrayType(_type(get_args(hint)[0]))
    return _TYPES[type(get_args(hint)[0]) if get_origin(hint) is Literal else hint]
