"""The summary of a `make test`: failed tests, and tests that were not run, of all its pytest runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[1] / "build"
FAILED, NOT_RUN = BUILD / "failed.txt", BUILD / "not_run.txt"
SHOWN_CHARS = 500


class Reports:
    """A pytest plugin. Where several processes share a run, it runs in the one that collects the others' reports."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else report.longreprtext
            _append(FAILED, f"{report.nodeid} ({report.when}): {' '.join(text.split())[:SHOWN_CHARS]}")
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            _append(NOT_RUN, reason.removeprefix("Skipped: "))


def begin() -> None:
    """Forget earlier runs."""
    BUILD.mkdir(exist_ok=True)
    FAILED.write_text("")
    NOT_RUN.write_text("")


def failed() -> str:
    """One line for each test that failed since `begin`."""
    return FAILED.read_text()


def not_run() -> list[str]:
    """One line for each reason that kept tests from running since `begin`."""
    reasons = Counter(NOT_RUN.read_text().splitlines())
    return [f"not run: {count} tests: {reason}" for reason, count in sorted(reasons.items())]


def _append(path: Path, line: str) -> None:
    BUILD.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(line.replace("\n", " ") + "\n")
