"""`make bench`: the service against the bare floor in interleaved runs; the tables go into docs/performance.md.

python -m lab.bench.run [--runs 5] [--seed 1] [--date YYYY-MM-DD] [--quick] [--ring] [--only SECTION]
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from lab.bench.page import PAGE, commit, refresh, with_section
from lab.bench.servers import scratch

SECTIONS: Mapping[str, str] = {
    "queues": "sections.queues:section",
    "publish": "sections.publish:section",
    "topics": "sections.topics:section",
    "fanout": "sections.fanout:section",
    "isolation": "sections.isolation:section",
    "curves": "sections.curves:section",
    "start": "sections.start:section",
    "waiting": "sections.waiting:section",
    "cluster": "sections.cluster:section",
    "ring": "sections.cluster:ring_section",
    "depths": "sections.curves:cluster_section",
    "hops": "sections.hops:section",
    "scaling": "sections.scaling:section",
    "background": "sections.background:section",
    "seed000": "sections.seed000:section",
    "seed000-ring": "sections.seed000:ring_section",
    "ring-work": "sections.ring_work:section",
    "receivers": "sections.long_run:receivers_section",
    "long": "sections.long_run:section",
    "migrate": "sections.migrate:section",
    "engines": "engines.section:section",
    "compare": "compare.section:section",
}
"""The function that makes a section's lines from a directory, a number of runs and a seed."""
ON_REQUEST = (
    "ring",
    "depths",
    "hops",
    "scaling",
    "background",
    "seed000-ring",
    "ring-work",
    "long",
    "migrate",
    "compare",
)
"""These sections run only when they are asked for: several Cassandra nodes need much memory, two million messages half
an hour."""
QUICK_SECTIONS = {"engines": "engines.section:quick", "compare": "compare.section:quick"}
"""Sections with a small form of their own: `--only engines --quick` prints it."""
QUICK_PARTS = [f"sections.{name}:quick" for name in ("queues", "publish", "topics", "isolation", "fanout", "cluster")]
"""Small runs that print their tables. They return what they checked, with what is absurdly slow or wrong, or ''."""


def function(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"lab.bench.{module}"), attribute)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--date", default=time.strftime("%F"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--ring", action="store_const", const="ring", help="the cluster form on a ring of three nodes as well"
    )
    parser.add_argument("--only", choices=SECTIONS)
    options = parser.parse_args()
    _allow_open_files()
    with scratch("bench") as directory:
        if options.quick and options.only in QUICK_SECTIONS:
            print("\n".join(function(QUICK_SECTIONS[options.only])(directory, options.seed)))
            return 0
        if options.quick:
            return quick(directory, options.seed)
        for name, section in SECTIONS.items():
            if name == options.only or (options.only is None and (name not in ON_REQUEST or name == options.ring)):
                write(name, function(section)(directory, options.runs, options.seed), options)
    return 0


def quick(directory: Path, seed: int) -> int:
    """One small run of the main sections; fails if a workload is absurdly slow or wrong."""
    found = [each for part in QUICK_PARTS for each in function(part)(directory, seed).items()]
    failures = [f"{name} ({wrong})" for name, wrong in found if wrong]
    names = f": {', '.join(failures)}" if failures else ""
    print(f"workloads: {len(found) - len(failures)} passed, {len(failures)} failed{names}")
    return 1 if failures else 0


def write(name: str, lines: list[str], options: argparse.Namespace) -> None:
    """Write the lines between the markers of `name`, and update the page's first table and plot."""
    command = f"python -m lab.bench.run --only {name} --runs {options.runs} --seed {options.seed}"
    facts = (
        f"`{command}`, {options.date}, commit {commit()}, {os.cpu_count()} cores,"
        f" Linux {platform.release()}, Python {platform.python_version()}."
    )
    PAGE.write_text(with_section(PAGE.read_text(), name, [*lines, "", facts]))
    refresh()
    print("\n".join(lines), flush=True)


def _allow_open_files() -> None:
    """The section `waiting` has thousands of connections in this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
