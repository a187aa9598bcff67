"""Keys of comparable hours: the same hour of the week, the same hour of the day, any hour."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cns_common.durations import HOUR_MS

_DAY_HOURS = 24
_WEEK_HOURS = 168
ANY = "any"


def history_keys(at_ms: Column) -> Column:
    """The keys of a time (ms since the epoch, UTC) as an array, the narrowest first."""
    hour = F.floor(at_ms / HOUR_MS)
    of_week = F.concat(F.lit("week "), (hour % _WEEK_HOURS).cast("string"))
    of_day = F.concat(F.lit("day "), (hour % _DAY_HOURS).cast("string"))
    return F.array(of_week, of_day, F.lit(ANY))


def narrowest(expected: Column, at_ms: Column) -> Column:
    """The value of the narrowest key that is in a map."""
    keys = history_keys(at_ms)
    return F.coalesce(*[F.element_at(expected, F.get(keys, F.lit(at))) for at in range(3)])
