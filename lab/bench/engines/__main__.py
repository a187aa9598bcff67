"""The section `engines` with other sizes, some of its parts, or some engines; prints its tables and leaves the page.

python -m lab.bench.engines [--quick] [--depth 1000000] [--fill-s 15] [--engine bdqs …] [--part contention …] [--seed 1]

`--fill-s` bounds the time of filling the deep queue of each engine, which its own `send` does for the engines on
Cassandra: `--part depth --engine cqs --fill-s 540` reaches a million messages.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from lab.bench.engines.section import DOCS, FULL, PARTS, QUICK, lines, measure
from lab.harness.processes import ROOT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--depth", type=int)
    parser.add_argument("--fill-s", type=float)
    parser.add_argument("--engine", action="append", default=[])
    parser.add_argument("--part", action="append", default=[], choices=PARTS)
    parser.add_argument("--draw", action="store_true", help="write the plots into docs/curves")
    parser.add_argument("--contention-s", type=float)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    size = size._replace(
        depth=options.depth or size.depth,
        fill_s=options.fill_s or size.fill_s,
        contention_s=options.contention_s or size.contention_s,
    )
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="engines-", dir=ROOT / "build") as scratch:
        found = measure(Path(scratch), options.seed, size, options.engine, options.part)
    print("\n".join(lines(found, size, draw_into=DOCS / "curves" if options.draw else None)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
