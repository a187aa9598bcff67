"""`cns pipeline …`: the Spark jobs, also by `spark-submit` with this file. A job's module is imported when its command
runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cns_cli.options import Data, Json
from cns_cli.pipeline.options import EVERY, Day, Events, KeepDays, Master, Out, Since, Until, run_job, seconds
from cns_pipeline.arguments import JobResult, make_arguments, period_of

app = typer.Typer(
    help="Tables and reports of deliveries, by Spark; needs Java.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)


@app.command("ingest", epilog="Examples: cns pipeline ingest | cns pipeline ingest --follow --every 10s")
def pipeline_ingest(
    data: Data = None,
    events: Events = "",
    out: Out = "",
    master: Master = "",
    keep_days: KeepDays = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue until SIGTERM or Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(metavar="TIME", help="With --follow: the interval between reads.")] = EVERY,
    json: Json = False,
) -> None:
    """Read new events into tables, without duplicates."""
    every_s = seconds(every, "--every")

    def work() -> JobResult:
        from cns_pipeline.jobs import ingest

        arguments = make_arguments(data, events, out, master=master, keep_days=keep_days)
        return ingest.follow(arguments, every_s, _tell if json else None) if follow else ingest.run(arguments)

    run_job(work, json=json)


def _tell(line: str) -> None:
    """Print to standard error: with --json, standard output has one value only, at the end."""
    print(line, file=sys.stderr, flush=True)


@app.command("compact", epilog="Example: cns pipeline compact --keep-days 90")
def pipeline_compact(
    data: Data = None, out: Out = "", master: Master = "", keep_days: KeepDays = None, json: Json = False
) -> None:
    """Merge the files of each date into few, and remove old dates. Each ingest already compacts a little."""

    def work() -> JobResult:
        from cns_pipeline.jobs.compact import run

        return run(make_arguments(data, None, out, master=master, keep_days=keep_days))

    run_job(work, json=json)


@app.command("report", epilog="Examples: cns pipeline report --day yesterday | cns pipeline report --since -1h --quick")
def pipeline_report(
    data: Data = None,
    out: Out = "",
    since: Since = "",
    until: Until = "",
    day: Day = "",
    master: Master = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the main figures, quickly: by DuckDB, without Java.")
    ] = False,
    wide: Annotated[bool, typer.Option("--wide", help="All columns and whole ARNs.")] = False,
    json: Json = False,
) -> None:
    """Report what was published, delivered, failed and used, as text, page and tables."""

    def work() -> JobResult:
        arguments = make_arguments(data, None, out, period_of(since, until, day), master)
        if quick:
            from cns_pipeline.jobs.quick import run as run_quick

            return run_quick(arguments, wide=wide)
        from cns_pipeline.jobs.report import run

        return run(arguments, wide=wide)

    run_job(work, json=json, by_spark=not quick)


@app.command("archive", epilog="Example: cns pipeline archive --keep-days 3650")
def pipeline_archive(
    data: Data = None,
    out: Out = "",
    keep_days: Annotated[
        int | None,
        typer.Option(min=0, help="Days to keep messages; 0: no limit. Default: the topic's ArchivePolicy."),
    ] = None,
    again_hours: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Hours of the archives to read again, for messages that were archived late, as by a replay."
            " Default: a minute; for FIFO topics 24 hours.",
        ),
    ] = None,
    master: Master = "",
    json: Json = False,
) -> None:
    """Copy the archived messages of all topics into a Parquet table by topic and day, without duplicates."""

    def work() -> JobResult:
        from cns_pipeline.jobs.archive import ArchiveOptions, run, store_place

        return run(
            make_arguments(data, None, out, master=master), store_place(data), ArchiveOptions(keep_days, again_hours)
        )

    run_job(work, json=json)


@app.command("health", epilog="Examples: cns pipeline health | cns pipeline health --day yesterday")
def pipeline_health(
    data: Data = None,
    out: Out = "",
    since: Since = "",
    until: Until = "",
    day: Day = "",
    master: Master = "",
    json: Json = False,
) -> None:
    """Judge endpoints by their own history: show those that failed or were slow in the last day or another period."""

    def work() -> JobResult:
        from cns_pipeline.jobs.health import run

        return run(make_arguments(data, None, out, period_of(since, until, day), master))

    run_job(work, json=json)


@app.command("run", epilog="Examples: cns pipeline run | cns pipeline run --day yesterday")
def pipeline_run(
    data: Data = None,
    events: Events = "",
    out: Out = "",
    since: Since = "",
    until: Until = "",
    day: Day = "",
    keep_days: KeepDays = None,
    master: Master = "",
    json: Json = False,
) -> None:
    """In one Spark session: ingest, make all reports of a period (default: the last 24 hours), and archive."""

    def work() -> JobResult:
        from cns_pipeline.jobs.run import run

        return run(make_arguments(data, events, out, period_of(since, until, day), master, keep_days))

    run_job(work, json=json)


@app.command("audit", hidden=True)  # its earlier name, for one release
@app.command(
    "verify", epilog="Examples: cns pipeline verify --day yesterday | cns pipeline verify --queue orders --at-rest"
)
def pipeline_verify(
    data: Data = None,
    out: Out = "",
    since: Since = "",
    until: Until = "",
    day: Day = "",
    queue: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Name or ARN of a queue; may be repeated. Default: all.")
    ] = None,
    lost_after: Annotated[
        str, typer.Option(metavar="TIME", help="A message that is not received for this time is lost.")
    ] = "15d",
    at_rest: Annotated[
        bool, typer.Option("--at-rest", help="The queues are empty now: other messages are lost.")
    ] = False,
    master: Master = "",
    json: Json = False,
) -> None:
    """Check queues with Audit=on for loss, duplicates and order. Exit code 1: a message was lost or changed, or a FIFO
    queue broke its order."""

    lost_after_ms = int(seconds(lost_after, "--lost-after") * 1000)

    def work() -> JobResult:
        from cns_pipeline.audit.options import AuditOptions
        from cns_pipeline.jobs.audit import run

        options = AuditOptions(queues=tuple(queue or ()), lost_after_ms=lost_after_ms, all_at_rest=at_rest)
        return run(make_arguments(data, None, out, period_of(since, until, day), master), options)

    run_job(work, json=json)


if __name__ == "__main__":
    app()
