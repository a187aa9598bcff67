"""Places: a topic with its account, and for a target its subscription, endpoint and protocol."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.transforms.report.columns import HAS_TARGET, PLACE

_ACCOUNT_OF_ARN, _ACCOUNT_OF_DIRECT = 5, 2
OF_PLACE = ("topic", "account", "subscription", "endpoint", "protocol", HAS_TARGET)


def places(event_cells: DataFrame) -> DataFrame:
    """Return a row per place. A drop may not name the endpoint: the other events of the target do."""
    is_topic = F.col("topic") != ""
    account = F.when(is_topic, _part("topic", ":", _ACCOUNT_OF_ARN)).otherwise(_part(PLACE, " ", _ACCOUNT_OF_DIRECT))
    return (
        event_cells.groupBy(PLACE, "topic", HAS_TARGET)
        .agg(F.max("endpoint").alias("endpoint"), F.max("protocol").alias("protocol"))
        .select(
            PLACE,
            "topic",
            account.alias("account"),
            F.when(is_topic & F.col(HAS_TARGET), F.col(PLACE)).otherwise("").alias("subscription"),
            "endpoint",
            "protocol",
            HAS_TARGET,
        )
    )


def with_places(frame: DataFrame, places: DataFrame) -> DataFrame:
    """Put what the place is in place of its name."""
    own = [name for name in frame.columns if name not in (PLACE, *OF_PLACE)]
    return frame.select(PLACE, *own).join(places, on=PLACE, how="inner").select(*own, *OF_PLACE)


def _part(name: str, delimiter: str, number: int) -> Column:
    return F.split_part(name, F.lit(delimiter), F.lit(number))
