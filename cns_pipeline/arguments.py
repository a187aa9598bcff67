"""The arguments of a job, from the command line of `spark-submit` or from `cns pipeline`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.batches import check_version
from cns_pipeline.paths import PipelinePaths

LOCK = "ingest.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Where a job reads and writes."""

    events: Path
    paths: PipelinePaths

    def check_events(self) -> None:
        if not self.events.is_dir():
            raise StartError(f"there are no events in {self.events}", EXIT_DATA_UNUSABLE)
        check_version(self.paths)

    def check_table(self) -> None:
        if not self.paths.table.is_dir():
            reason = f"nothing was ingested into {self.paths.out}: run `cns pipeline ingest` first"
            raise StartError(reason, EXIT_DATA_UNUSABLE)
        check_version(self.paths)


def make_arguments(data: Path | None, events: Path | None, out: Path | None) -> Arguments:
    """Fill missing arguments from the settings."""
    settings = load_settings(data)
    return Arguments(
        events=events or settings.events_path,
        paths=PipelinePaths((out or settings.data / "pipeline").absolute()),
    )


def main(job: Callable[[Arguments], str]) -> None:
    """Run a submitted job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--events", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.exit(exit_code(lambda: job(make_arguments(options.data, options.events, options.out))))


def exit_code(work: Callable[[], str]) -> int:
    """Print the result of `work`, or one line with its start error; return the exit code."""
    try:
        result = work()
    except StartError as error:
        sys.stderr.write(f"cns: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{result}\n")
    return 0
