"""What failed in each pytest run of a `make test`, for the lines that end it: nobody reads half an hour of output."""

from __future__ import annotations

from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "build" / "failures.txt"
SHOWN_CHARS = 1_000


class Failures:
    """A pytest plugin. Where several processes share a run, the one that leads them hears of all."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            said = " ".join(report.longreprtext.split())
            FILE.parent.mkdir(exist_ok=True)
            with FILE.open("a") as file:
                file.write(f"{report.nodeid} ({report.when}): … {said[-SHOWN_CHARS:]}\n")


def begin() -> None:
    """Forget earlier runs."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("")


def found() -> str:
    """A line a failed test, of all runs since the beginning."""
    return FILE.read_text()
