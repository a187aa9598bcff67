"""The arguments of a job, and the output and exit code of its command."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from cns_common.clock import Clock
from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.batches import check_version
from cns_pipeline.location import Location, located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import EVERYTHING, Period, parse_period

LOCK = "ingest.lock"
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writes to an open file: they have no file name."""


class JobResult(NamedTuple):
    """The result of a job: its text for people, the exit code of its command, and its JSON for programs."""

    text: str
    exit_code: int = 0
    facts: object = None


def left_out(why: str) -> JobResult:
    """The result of a job that had nothing to do."""
    return JobResult(why, facts={"leftOut": why})


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The directories, the period and the cluster of a job."""

    data: Path
    events: Location
    paths: PipelinePaths
    local: Path  # the directory of logs and locks on this machine
    period: Period = EVERYTHING
    keep_days: int = 0  # how many days before the newest stay in the table; 0: all
    master: str = ""  # Spark's URL of a cluster; empty: this machine, or the master of `spark-submit`

    def check_events(self) -> None:
        directory = self.events.local
        if directory is not None and not directory.is_dir():
            raise StartError(f"there are no events in {self.events}", EXIT_DATA_UNUSABLE)
        check_version(self.paths)

    def has_table(self) -> bool:
        """Whether the table of events exists, as far as it can be seen without Spark."""
        directory = self.paths.table.local
        return directory is None or directory.is_dir()

    def check_table(self) -> None:
        if not self.has_table():
            reason = f"nothing was ingested into {self.paths.out}: run `cns pipeline ingest` first"
            raise StartError(reason, EXIT_DATA_UNUSABLE)
        check_version(self.paths)


def make_arguments(
    data: Path | None,
    events: str | Path | None,
    out: str | Path | None,
    period: Period = EVERYTHING,
    master: str = "",
    keep_days: int | None = None,
) -> Arguments:
    """Fill missing arguments from the settings."""
    settings = load_settings(data)
    default = settings.data / "pipeline"
    paths = PipelinePaths(out or default)
    for directory in (settings.data, paths.out.local):
        if directory is not None and directory.exists() and not directory.is_dir():
            raise StartError(f"{directory} is not a directory", EXIT_DATA_UNUSABLE)
    return Arguments(
        data=settings.data,
        events=located(events or settings.events_path),
        paths=paths,
        local=paths.out.local or default.absolute(),
        period=period,
        keep_days=settings.pipeline_keep_days if keep_days is None else keep_days,
        master=master,
    )


def period_of(since: str, until: str, day: str) -> Period:
    """The period of the options, relative to the machine's clock. Raises StartError."""
    return parse_period(since, until, day, Clock().real_ms())


def exit_code(work: Callable[[], JobResult], *, json: bool = False) -> int:
    """Print the result of `work`, or one line about its start error or failed path. Returns the exit code."""
    try:
        outcome = work()
    except StartError as error:
        sys.stderr.write(f"cns: {error}\n")
        return error.exit_code
    except OSError as error:
        if error.filename is None and error.errno not in _OF_DISKS:
            raise
        what = "write" if error.filename is None else f"use {error.filename}"
        sys.stderr.write(f"cns: cannot {what}: {error.strerror}\n")
        return EXIT_DATA_UNUSABLE
    text = msgspec.json.encode(outcome.facts).decode() if json else outcome.text
    sys.stdout.write(f"{text}\n")
    return outcome.exit_code
