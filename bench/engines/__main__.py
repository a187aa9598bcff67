"""The section `engines` with other sizes, or of some engines; prints its tables and leaves the page as it is.

python -m bench.engines [--quick] [--depth 1000000] [--fill-s 15] [--engine bdqs …] [--seed 1]

`--fill-s` bounds the time of filling the deep queue of each engine: for a million messages it takes some minutes each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.engines.section import FULL, QUICK, lines, measure
from bench.measure.processes import ROOT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--depth", type=int)
    parser.add_argument("--fill-s", type=float)
    parser.add_argument("--engine", action="append", default=[])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    size = size._replace(depth=options.depth or size.depth, fill_s=options.fill_s or size.fill_s)
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="engines-", dir=ROOT / "build") as scratch:
        found = measure(Path(scratch), options.seed, size, options.engine)
    print("\n".join(lines(found, size, draw_into=None)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
