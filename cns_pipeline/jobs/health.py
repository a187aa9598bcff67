"""`cns pipeline health`: judges endpoints by their own history."""

from __future__ import annotations

from cns_common.clock import Clock
from cns_pipeline.arguments import Arguments, JobResult
from cns_pipeline.health.job import health_period, update_health
from cns_pipeline.health.labels import health_lines
from cns_pipeline.locking import directory_lock
from cns_pipeline.session import open_job

LOCK = "health.lock"


def run(arguments: Arguments) -> JobResult:
    """Judge the endpoints of the period."""
    arguments.check_table()
    now_ms = Clock().real_ms()
    with directory_lock(arguments.local, LOCK), open_job("cns-health", arguments) as spark:
        health = update_health(spark, arguments.paths, health_period(arguments.period, now_ms), now_ms)
    return JobResult("\n".join([*health_lines(health), str(arguments.paths.health)]), facts=health)
