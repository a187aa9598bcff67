"""The summary of a `make test`: failed tests, tests that were not run, the slowest files, of all its pytest runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[1] / "build"
FAILED, NOT_RUN, SECONDS = BUILD / "failed.txt", BUILD / "not_run.txt", BUILD / "seconds.tsv"
SHOWN_CHARS = 500
SHOWN_FILES = 10


class Reports:
    """A pytest plugin. Where several processes share a run, it runs in the one that collects the others' reports."""

    def __init__(self) -> None:
        self._seconds: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds.append(f"{report.duration:.3f}\t{report.when}\t{report.nodeid}\n")
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else report.longreprtext
            _append(FAILED, f"{report.nodeid} ({report.when}): {' '.join(text.split())[:SHOWN_CHARS]}")
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            _append(NOT_RUN, reason.removeprefix("Skipped: "))

    def pytest_sessionfinish(self) -> None:
        BUILD.mkdir(exist_ok=True)
        with SECONDS.open("a") as file:
            file.writelines(self._seconds)


def begin() -> None:
    """Forget earlier runs."""
    BUILD.mkdir(exist_ok=True)
    FAILED.write_text("")
    NOT_RUN.write_text("")
    SECONDS.write_text("")


def failed() -> str:
    """One line for each test that failed since `begin`."""
    return FAILED.read_text()


def not_run() -> list[str]:
    """One line for each reason that kept tests from running since `begin`."""
    reasons = Counter(NOT_RUN.read_text().splitlines())
    return [f"not run: {count} tests: {reason}" for reason, count in sorted(reasons.items())]


def slowest() -> list[str]:
    """The test files that took longest since `begin`, set-up included. `build/seconds.tsv` has each test."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in SECONDS.read_text().splitlines():
        duration, _, test = line.split("\t", 2)
        seconds[test.split("::")[0]] += float(duration)
    files = sorted(seconds, key=seconds.__getitem__, reverse=True)
    return [f"{seconds[file]:7.1f} s  {file}" for file in files[:SHOWN_FILES]]


def _append(path: Path, line: str) -> None:
    BUILD.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(line.replace("\n", " ") + "\n")
