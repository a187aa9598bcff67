"""One experiment of seed 003 or 004, or all of them: the result goes into docs/experiments.md.

python -m lab.experiments rate|queues|response|hints|drops|kills|consistency|spike|workers|modes|poppers|idle|
    all [--seed 1] [--date YYYY-MM-DD] [--ring] [--print]

`--ring`: `kills` on three Cassandra nodes, as `consistency` always is. `--print`: only print, and leave the page as it
is.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lab.bench.page import DOCS, commit, with_section
from lab.bench.servers import scratch
from lab.experiments import seed003, seed004
from lab.experiments.report import Report
from lab.harness.usage import machine_cpu_s

PAGE = DOCS / "experiments.md"
EXPERIMENTS: dict[str, Callable[[Path, int], Report]] = {
    "rate": seed004.rate,
    "queues": seed004.queues,
    "response": seed004.response,
    "hints": seed004.hints,
    "drops": seed004.drops,
    "kills": seed004.kills,
    "consistency": seed004.consistency,
    "spike": seed003.spike,
    "workers": seed003.workers,
    "modes": seed003.modes,
    "poppers": seed003.poppers,
    "idle": seed003.idle,
}
ALL = "all"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=(*EXPERIMENTS, ALL))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--date", default=time.strftime("%F"))
    parser.add_argument("--ring", action="store_true")
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    for name in EXPERIMENTS if options.experiment == ALL else (options.experiment,):
        run(name, options)
    return 0


def run(name: str, options: argparse.Namespace) -> None:
    on_ring = options.ring and name == "kills"
    experiment = partial(seed004.kills, on_ring=True) if on_ring else EXPERIMENTS[name]
    load, began_s, used_s = os.getloadavg()[0], time.monotonic(), machine_cpu_s()
    with scratch("experiment") as directory:
        report = experiment(directory, options.seed)
    took_s = time.monotonic() - began_s
    busy = (machine_cpu_s() - used_s) / took_s / (os.cpu_count() or 1)
    facts = (
        f"`python -m lab.experiments {name}{' --ring' if on_ring else ''} --seed {options.seed}`, {options.date},"
        f" commit {commit()}, {took_s:.0f} s, {os.cpu_count()} cores; load average before {load:.1f}, machine busy"
        f" {busy:.0%}."
    )
    lines = report.lines(DOCS / "curves" if not options.print else Path(tempfile.gettempdir()))
    print("\n".join([f"## {report.title}", "", *lines, "", facts, ""]), flush=True)
    if not options.print:
        PAGE.write_text(with_section(PAGE.read_text(), name, [*lines, "", facts]))


if __name__ == "__main__":
    sys.exit(main())
