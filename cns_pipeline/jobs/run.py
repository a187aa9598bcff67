"""All jobs in one session: `spark-submit cns_pipeline/jobs/run.py [--day DATE]`; `cns pipeline run` runs it too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_IN_USE
from cns_common.errors import StartError
from cns_pipeline.arguments import Arguments, Outcome, main
from cns_pipeline.jobs import archive, audit, health, ingest, report
from cns_pipeline.locking import directory_lock
from cns_pipeline.period import DAY_MS, Period
from cns_pipeline.session import open_job

LOCK = "run.lock"
Job = Callable[[Arguments], str]
REPORTS: Mapping[str, Job] = {"health": health.run, "audit": audit.text_of_audited, "report": report.run}
"""The jobs after ingest, in their order: the report shows what health and audit found."""


def run(arguments: Arguments) -> Outcome:
    """Run every job; return what each says. Without a period, the last 24 hours are reported."""
    arguments.check_events()
    if arguments.period.is_everything:
        now_ms = Clock().real_ms()
        arguments = replace(arguments, period=Period(now_ms - DAY_MS, now_ms))
    with directory_lock(arguments.local, LOCK), open_job("cns-pipeline", arguments):
        said = [f"ingest:\n{_unless_in_use(ingest.run, arguments)}"]
        reports = REPORTS.items() if arguments.has_table() else ()
        said += [f"{name}:\n{job(arguments)}" for name, job in reports]
        archived = _archived(arguments)
    return Outcome("\n\n".join([*said, f"archive:\n{archived.text}"]), archived.exit_code)


def _archived(arguments: Arguments) -> Outcome:
    """Archive last, and hold no report back: the store may be away."""
    try:
        return Outcome(_unless_in_use(archive.text_of_archived, arguments), 0)
    except StartError as error:
        return Outcome(f"failed: {error}", error.exit_code)


def _unless_in_use(job: Job, arguments: Arguments) -> str:
    """Return the text of a job, or of the other process that does it: `ingest --follow`, for example."""
    try:
        return job(arguments)
    except StartError as error:
        if error.exit_code != EXIT_DATA_IN_USE:
            raise
        return f"left to another process: {error}"


if __name__ == "__main__":
    main(run)
