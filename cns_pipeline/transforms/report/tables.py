"""The tables of figures: which row of each a cell belongs to."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HAS_TARGET, HOUR
from cns_pipeline.transforms.report.places import OF_PLACE

TABLE = "table"
ROW = (TABLE, "name", "topic", "protocol", "endpoint")
"""The columns that name a row, of all tables. A table uses some; the others are ''."""

TOTALS = "totals"
BY_TIME = ("hours", "days")
BY_TARGET = ("subscriptions", "endpoints", "protocols")
BY_PLACE = ("topics", "accounts", TOTALS, *BY_TARGET)


def rows_of_tables(cells: DataFrame, tables: Collection[str]) -> DataFrame:
    """Repeat each cell for every table, with the columns `ROW` of its row there in place of its own."""
    keys = F.filter(F.array(*[_keys()[table] for table in tables]), lambda key: key.isNotNull())
    dropped = {HOUR, *OF_PLACE}
    kept = [name for name in cells.columns if name not in dropped]
    return cells.select(*kept, F.inline(keys))


def _keys() -> dict[str, Column]:
    """The row of each table. Cells without a target have none in the tables by target."""
    day = F.date_format(F.timestamp_millis(F.col(HOUR)), "yyyy-MM-dd")
    subscription = _key("subscriptions", F.col("subscription"), topic=True, protocol=True, endpoint=True)
    has_target = F.col(HAS_TARGET)
    return {
        "hours": _key("hours", F.col(HOUR).cast("string")),
        "days": _key("days", day),
        "topics": _key("topics", F.col("topic")),
        "accounts": _key("accounts", F.col("account")),
        TOTALS: _key(TOTALS, F.lit("")),
        "subscriptions": F.when(F.col("subscription") != "", subscription),
        "endpoints": F.when(has_target, _key("endpoints", F.col("endpoint"), protocol=True)),
        "protocols": F.when(has_target, _key("protocols", F.col("protocol"))),
    }


def _key(table: str, name: Column, *, topic: bool = False, protocol: bool = False, endpoint: bool = False) -> Column:
    none = F.lit("")
    return F.struct(
        F.lit(table).alias(TABLE),
        name.alias("name"),
        (F.col("topic") if topic else none).alias("topic"),
        (F.col("protocol") if protocol else none).alias("protocol"),
        (F.col("endpoint") if endpoint else none).alias("endpoint"),
    )
