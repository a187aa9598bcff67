"""What a job is told: on its command line when it is submitted, by `cns pipeline` otherwise."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.paths import Places

LOCK = "ingest.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """`retention_s`: how long segments are kept."""

    events: Path
    places: Places
    retention_s: int

    def check_events(self) -> None:
        if not self.events.is_dir():
            raise StartError(f"there are no events in {self.events}", EXIT_DATA_UNUSABLE)

    def check_table(self) -> None:
        if not self.places.table.is_dir():
            reason = f"nothing was ingested into {self.places.out}: run `cns pipeline ingest` first"
            raise StartError(reason, EXIT_DATA_UNUSABLE)


def arguments_of(data: Path | None, events: Path | None, out: Path | None) -> Arguments:
    """What is not given is where the settings say, or beside it."""
    settings = load_settings(data)
    return Arguments(
        events=events or settings.events_path,
        places=Places((out or settings.data / "pipeline").absolute()),
        retention_s=settings.events_retention_s,
    )


def main(job: Callable[[Arguments], str]) -> None:
    """The entry point of a submitted job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--events", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sys.exit(exit_code(lambda: job(arguments_of(given.data, given.events, given.out))))


def exit_code(work: Callable[[], str]) -> int:
    """Print what the work says, or in one line why it could not be done."""
    try:
        said = work()
    except StartError as error:
        sys.stderr.write(f"cns: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{said}\n")
    return 0
