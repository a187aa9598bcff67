"""`python -m lab.bench.background idle | deep | deleted`: statements beside calls, fills of deep queues, the cost of
many deletes."""

from __future__ import annotations

import argparse
import asyncio

from lab.bench.background import deep, deleted, idle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(required=True, metavar="PART")
    for part in (idle, deep, deleted):
        one = parts.add_parser(part.__name__.rpartition(".")[2], help=part.__doc__)
        part.add_arguments(one)
        one.set_defaults(run=part.run)
    arguments = parser.parse_args()
    asyncio.run(arguments.run(arguments))


main()
