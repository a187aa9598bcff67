"""The health job: updates the daily tables, judges the endpoints of a period, and writes the results.

out/health/endpoints/…    the state of each endpoint in the last hour of the period, by its history (Parquet)
out/health/endpoints.json the unhealthy ones of these, for workers and `cns endpoints`
out/health/time_of_day/…  topics, queues and endpoints by hour of the day (Parquet)
out/health/health.json    incidents of the period, and other results for the page
"""

from __future__ import annotations

import contextlib

import msgspec
from pyspark.sql import SparkSession

from cns_common.durations import DAY_MS
from cns_common.endpoint_health import FILE_NAME, EndpointHealth, encode_endpoint_health
from cns_common.errors import UNREADABLE
from cns_pipeline.health.collect import History, collect_endpoint_health, collect_health, judged_now
from cns_pipeline.health.document import Health
from cns_pipeline.health.history import days_before, days_of, hours_table, traffic_table
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import Period
from cns_pipeline.read import read_events
from cns_pipeline.storage import Storage
from cns_pipeline.transforms.health.time_of_day import time_of_day

DOCUMENT = "health.json"


def health_period(period: Period, now_ms: int) -> Period:
    """The period with a start and an end, and no end in the future. Without a start: the last day."""
    until_ms = min(period.until_ms, max(now_ms, period.since_ms + 1))
    since_ms = period.since_ms or until_ms - DAY_MS
    return Period(since_ms, until_ms)


def update_health(spark: SparkSession, paths: PipelinePaths, period: Period, now_ms: int) -> Health:
    """Judge the endpoints of a period with a start and an end, and write the tables and documents."""
    days = sorted({*days_before(period.since_ms), *days_of(period)})
    hours_table(paths).update(spark, paths, days)
    traffic_table(paths).update(spark, paths, days)
    past = read_history(spark, paths, period)
    events = read_events(spark, paths, period.since_ms, period.until_ms)
    now = judged_now(events, past, period.until_ms).cache()
    now.write.mode("overwrite").parquet(str(paths.health / "endpoints"))
    past.by_time_of_day.write.mode("overwrite").parquet(str(paths.health / "time_of_day"))
    _write_newest(Storage(spark), paths, collect_endpoint_health(now, period.until_ms, now_ms))
    now.unpersist()
    health = collect_health(events, past, period, now_ms)
    Storage(spark).write(paths.health / DOCUMENT, msgspec.json.encode(health))
    return health


def read_history(spark: SparkSession, paths: PipelinePaths, period: Period) -> History:
    """Read the daily tables: hours before the period, and traffic until its end."""
    before, all_days = days_before(period.since_ms), sorted({*days_before(period.until_ms), *days_of(period)})
    hours, traffic = hours_table(paths), traffic_table(paths)
    traffic_days = traffic.days(spark, all_days)
    return History(
        hours=hours.read(spark, before),
        hours_days=hours.days(spark, before),
        by_time_of_day=time_of_day(traffic.read(spark, all_days), max(traffic_days, 1)),
        by_time_of_day_days=traffic_days,
    )


def _write_newest(storage: Storage, paths: PipelinePaths, found: EndpointHealth) -> None:
    """Write the file for workers, unless it has a later observation."""
    file = paths.health / FILE_NAME
    with contextlib.suppress(FileNotFoundError, *UNREADABLE):
        there = msgspec.json.decode(storage.read(file), type=EndpointHealth)
        if there.observed_until_ms > found.observed_until_ms:
            return
    storage.write(file, encode_endpoint_health(found))
