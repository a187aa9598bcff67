"""`cns pipeline verify`: finds lost, repeated and reordered messages of audited queues."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from cns_common.clock import Clock
from cns_pipeline.arguments import Arguments, JobResult, left_out
from cns_pipeline.audit.collect import audit, read_audit_events
from cns_pipeline.audit.options import AuditOptions
from cns_pipeline.audit.tables import AuditTables
from cns_pipeline.audit.text import format_audit
from cns_pipeline.batches import event_directories
from cns_pipeline.location import located
from cns_pipeline.locking import directory_lock
from cns_pipeline.schema import EVENT
from cns_pipeline.session import open_job
from cns_pipeline.storage import Storage
from cns_pipeline.transforms.audit.messages import SENT

LOCK = "audit.lock"
_SENDS = f"{EVENT}={SENT}"
"""The directory of `message.sent` events in a part of the table."""
EXIT_WRONG = 1
"""A message was lost or changed, or a FIFO queue delivered messages out of order."""


def run(arguments: Arguments, options: AuditOptions | None = None) -> JobResult:
    """Run the job for the period of the arguments."""
    arguments.check_table()
    options = replace(options or AuditOptions(), period=arguments.period)
    with directory_lock(arguments.local, LOCK), open_job("cns-audit", arguments) as spark:
        events = read_audit_events(spark, arguments.paths, arguments.period)
        found = audit(events, AuditTables(spark, arguments.paths), options, Clock().real_ms())
    wrong = any(finding.severity == "error" for finding in found.findings)
    return JobResult(format_audit(found, str(arguments.paths.audit)), EXIT_WRONG if wrong else 0, found)


def run_if_audited(arguments: Arguments) -> JobResult:
    """Run the job; without an audited queue return one line and start no Spark job."""
    storage = Storage(None if arguments.paths.out.local else SparkSession.getActiveSession())
    period = arguments.period
    directories = event_directories(storage, arguments.paths, period.since_ms, period.until_ms)
    if not any(_SENDS in storage.names(located(directory)) for directory in directories):
        return left_out("no queue has Audit=on, or nothing was sent to one")
    return run(arguments)
