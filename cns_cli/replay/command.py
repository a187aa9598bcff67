"""`cns replay …`: sends archived messages of a topic again, from the live archive or from its table."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from cns.filters.model import Scope
from cns_backend.backend import Backend
from cns_cli.activity import recorded
from cns_cli.options import Data, Json
from cns_cli.output import print_json
from cns_cli.replay.destinations import open_destination
from cns_cli.replay.display import progress_display, warn
from cns_cli.replay.filtering import compile_filter
from cns_cli.replay.live_archive import LiveArchive
from cns_cli.replay.model import PAGE_MESSAGES, PastArchive
from cns_cli.replay.options import ReplayOptions
from cns_cli.replay.pace import Pace
from cns_cli.replay.progress import Progress, ProgressFile
from cns_cli.replay.runner import BulkReplay, NoDestination, NoRecord, Wanted
from cns_cli.replay.table_archive import open_table
from cns_cli.replay.targets import check_target, check_topic
from cns_cli.store_access import open_service_backend, run_command
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import EXIT_USAGE, StartError
from cns_common.ids import hex_id
from cns_pipeline.period import END_MS, Period, parse_period
from cns_pipeline.reports.text import counted


def replay(
    topic: Annotated[str, typer.Option(metavar="ARN", help="The topic whose archived messages are sent.")],
    to: Annotated[
        str,
        typer.Option(metavar="TARGET", help="ARN of a subscription, or of a topic."),
    ] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Published since: 2026-11-22, 2026-11-22T08:00 (UTC), -24h, -7d.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Published before; written as for --since.")] = "",
    day: Annotated[str, typer.Option(metavar="DATE", help="Published on one day in UTC: a date, or yesterday.")] = "",
    policy: Annotated[
        str, typer.Option("--filter", metavar="JSON", help="A filter policy, as of a subscription.")
    ] = "",
    scope: Annotated[Scope, typer.Option("--filter-scope", help="What the policy applies to.")] = Scope.ATTRIBUTES,
    from_table: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Read the table of `cns pipeline archive` in this output directory."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0, metavar="N", help="The limit of messages per second; 0: none.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the messages, and send nothing; --to is not needed.")
    ] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Send archived messages again. To continue a replay that was stopped, run the same command.

    Example: cns replay --topic ARN --day yesterday --to SUBSCRIPTION_ARN
    """
    if not (to or dry_run):
        raise StartError("name a target with --to, or use --dry-run to count", EXIT_USAGE)
    if not math.isfinite(rate):
        raise StartError(f"--rate {rate} is not a number: 0 is no limit", EXIT_USAGE)
    options = ReplayOptions(
        topic=check_topic(topic, "--topic"),
        target=check_target(to) if to else "",
        period=_period(since, until, day),
        period_text=(since, until, day),
        filter=policy,
        scope=scope,
        table=from_table,
        rate_per_s=rate,
        dry_run=dry_run,
    )
    done = _done(data, options)
    if json:
        print_json([{"topicArn": topic, "to": to or None, "read": done.read, "sent": done.sent, "dryRun": dry_run}])
    elif dry_run:
        print(f"{counted(done.sent, 'message')} of {done.read:,} would be sent")
    else:
        print(f"{counted(done.sent, 'message')} sent of {done.read:,}, to {to}")


def _done(data: Path | None, options: ReplayOptions) -> Progress:
    """The progress of the replay, which is recorded as an act unless it is a dry run."""

    def run() -> Progress:
        return run_command(lambda: _run(load_settings(data), options))

    if options.dry_run:
        return run()
    with recorded(data, "Replay", options.topic, f"to {options.target}") as note:
        done = run()
        note.detail += f", {counted(done.sent, 'message')}"
        return done


async def _run(settings: Settings, options: ReplayOptions) -> Progress:
    """Run or count the replay. Returns its progress."""
    async with AsyncExitStack() as stack:
        if options.dry_run and options.table is not None:
            archive: PastArchive = open_table(options.table, options.topic)
            return await _count(archive, options, Clock().real_ms())
        backend = await stack.enter_async_context(open_service_backend(settings))
        archive = await _archive(backend, options)
        now_ms = backend.clock.now_ms()
        if options.dry_run:
            return await _count(archive, options, now_ms)
        file = stack.enter_context(ProgressFile(settings.data, options.identity))
        progress = resumed(file, archive.id) or _begun(archive, options, now_ms)
        destination = await stack.enter_async_context(open_destination(settings, backend, options, archive, progress))
        file.save(progress)
        show = stack.enter_context(progress_display(progress.since_ms, progress.until_ms))
        source = archive.messages_in(progress.since_ms, progress.until_ms)
        done = await BulkReplay(source, destination, _wanted(options), file, _pace(options.rate_per_s), show).run(
            progress
        )
        file.remove()
        return done


async def _count(archive: PastArchive, options: ReplayOptions, now_ms: int) -> Progress:
    progress = _begun(archive, options, now_ms)
    source = archive.messages_in(progress.since_ms, progress.until_ms)
    with progress_display(progress.since_ms, progress.until_ms) as show:
        return await BulkReplay(source, NoDestination(), _wanted(options), NoRecord(), _pace(0), show).run(progress)


async def _archive(backend: Backend, options: ReplayOptions) -> PastArchive:
    if options.table is not None:
        return open_table(options.table, options.topic)
    topic = await backend.topics.get(options.topic)
    if topic is None or topic.archive is None:
        text = f"{options.topic} has no archive: set its ArchivePolicy, or read a table with --from-table"
        raise StartError(text, EXIT_DATA_UNUSABLE)
    return LiveArchive(backend.archives, topic.archive)


def _period(since: str, until: str, day: str) -> Period:
    """The period. Without an end it ends with the archive, which may be ahead of this machine's clock."""
    period = parse_period(since, until, day, Clock().real_ms())
    return period if until or day else Period(period.since_ms, END_MS)


def _begun(archive: PastArchive, options: ReplayOptions, now_ms: int) -> Progress:
    period = options.period
    since_ms, until_ms = max(period.since_ms, archive.first_ms), min(period.until_ms, archive.end_ms(now_ms))
    return Progress(id=hex_id(), command=options.identity, since_ms=since_ms, until_ms=until_ms, archive=archive.id)


def resumed(file: ProgressFile, archive_id: str) -> Progress | None:
    """The progress of a replay that was stopped. Raises StartError if its archive was deleted."""
    progress = file.load()
    if progress is None:
        return None
    anew = f"To begin anew remove {file.path}"
    if progress.archive not in ("", archive_id):
        text = f"the archive of this replay is gone: the topic has begun another one. {anew}"
        raise StartError(text, EXIT_DATA_UNUSABLE)
    period = Period(progress.since_ms, progress.until_ms)
    repeated = f"at most {PAGE_MESSAGES} messages are sent twice"
    warn(f"continues the replay of {period}, after {counted(progress.read, 'message')}; {repeated}. {anew}")
    return replace(progress, resumed=progress.resumed + 1)


def _wanted(options: ReplayOptions) -> Wanted:
    return compile_filter(options.filter, options.scope)


def _pace(rate_per_s: float) -> Pace:
    return Pace(rate_per_s, asyncio.get_running_loop().time, asyncio.sleep)
