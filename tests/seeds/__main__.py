"""Runs the commands of a seed's rows and prints the table, or writes docs/seeds.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.seeds.page import PAGE, draw_page
from tests.seeds.rows import SEEDS, Row, load_rows

BIN = Path(sys.executable).parent
PYTEST = (sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider")
READ = "read"
"""The first word of a "command" that names a file to read."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.seeds", description="What the seeds state, and what shows it.")
    parser.add_argument("--page", action="store_true", help="write docs/seeds.md")
    parser.add_argument("--row", action="append", default=[], metavar="ID", help="only this row")
    parser.add_argument("seeds", nargs="*", choices=[[], *SEEDS], metavar="SEED")
    options = parser.parse_args(words)
    if options.page:
        PAGE.write_text(draw_page(), encoding="utf-8")
        return 0
    rows = [row for seed in options.seeds or SEEDS for row in load_rows(seed)]
    return run([row for row in rows if not options.row or row.id in options.row])


def run(rows: list[Row]) -> int:
    """Run each command once. Returns 1 if one failed."""
    results = {command: _run(command) for command in dict.fromkeys(row.show for row in rows if row.show)}
    for row in rows:
        result = results.get(row.show, "")
        print(f"{row.id:<5} {row.state:<7} {result:<7} {row.show or row.note}")
    print(_summary(rows))
    return 1 if "failed" in results.values() else 0


def _run(command: str) -> str:
    """`ok`, `failed`, or the word `read` for a file to read."""
    program, *arguments = command.split()
    if program == READ:
        return READ
    print(f"== {command}", flush=True)
    started = (*PYTEST, *arguments) if program == "pytest" else (str(BIN / program), *arguments)
    return "ok" if subprocess.run(started, check=False).returncode == 0 else "failed"


def _summary(rows: Iterable[Row]) -> str:
    states = [row.state for row in rows]
    return f"{len(states)} rows: {states.count('yes')} yes, {states.count('partly')} partly, {states.count('no')} no"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
