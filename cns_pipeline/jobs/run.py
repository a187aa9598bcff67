"""`cns pipeline run`: all jobs in one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_IN_USE
from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_pipeline.arguments import Arguments, JobResult, left_out
from cns_pipeline.jobs import archive, audit, health, ingest, report
from cns_pipeline.locking import directory_lock
from cns_pipeline.period import Period
from cns_pipeline.session import open_job

LOCK = "run.lock"
Job = Callable[[Arguments], JobResult]
REPORTS: Mapping[str, Job] = {"health": health.run, "audit": audit.run_if_audited, "report": report.run}
"""The jobs after ingest, in order: the report includes the results of health and audit."""


def run(arguments: Arguments) -> JobResult:
    """Run all jobs. Without a period, the reports are of the last 24 hours."""
    arguments.check_events()
    if arguments.period.is_everything:
        now_ms = Clock().real_ms()
        arguments = replace(arguments, period=Period(now_ms - DAY_MS, now_ms))
    with directory_lock(arguments.local, LOCK), open_job("cns-pipeline", arguments):
        done = {"ingest": _unless_in_use(ingest.run, arguments)}
        reports = REPORTS.items() if arguments.has_table() else ()
        done |= {name: job(arguments) for name, job in reports}
        done["archive"] = _archived(arguments)
    text = "\n\n".join([f"{name}:\n{outcome.text}" for name, outcome in done.items()])
    facts = {name: outcome.facts for name, outcome in done.items()}
    return JobResult(text, done["archive"].exit_code, facts)


def _archived(arguments: Arguments) -> JobResult:
    """Run the archive job last, and report its error as a result: an unreachable store must not delay the reports."""
    try:
        return _unless_in_use(archive.run_as_before, arguments)
    except StartError as error:
        return JobResult(f"failed: {error}", error.exit_code, {"failed": str(error)})


def _unless_in_use(job: Job, arguments: Arguments) -> JobResult:
    """Run the job, unless another process holds its lock, such as `ingest --follow`."""
    try:
        return job(arguments)
    except StartError as error:
        if error.exit_code != EXIT_DATA_IN_USE:
            raise
        return left_out(f"left to another process: {error}")
