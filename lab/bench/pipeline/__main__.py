"""Measures ingest, report and audit on made events, beside DuckDB on the same files.

    python -m lab.bench.pipeline [--events 1000000 3000000 10000000] [--directory DIR] [--reports 2]
        [--no-audit]

A day of deliveries, and a queue with a third as many messages, of three events each. CPU seconds are of Spark's Java
process and of Python; reports after the first are of a warm session. DuckDB reads the same segments and tables with two
threads, as Spark does. Each engine has a process of its own. What was made is removed at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from lab.bench.pipeline.measured import HEADER
from lab.bench.pipeline.work import MadeDay, make, run_duckdb, run_spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--directory", type=Path, help="where to make the files: 6 GB for 10 million events")
    parser.add_argument("--reports", type=int, default=2, help="in one session: code is compiled and kept by the first")
    parser.add_argument("--no-audit", action="store_true")
    options = parser.parse_args()
    now_ms = Clock().real_ms()
    print(HEADER, flush=True)
    for events in options.events:
        with TemporaryDirectory(dir=options.directory) as directory:
            day = MadeDay(
                deliveries=Path(directory, "deliveries"),
                messages=None if options.no_audit else Path(directory, "messages"),
                start_ms=now_ms - now_ms % DAY_MS - DAY_MS,
                events=events,
                reports=options.reports,
            )
            for part in (make, run_spark, run_duckdb):
                in_own_process(part, day)


def in_own_process(part: Callable[[MadeDay], None], day: MadeDay) -> None:
    process = get_context("spawn").Process(target=part, args=(day,))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
