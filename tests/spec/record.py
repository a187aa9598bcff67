"""Records of each pytest run: tests by the rules that they show, for the page that joins them."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.spec.rules import load_rules

RECORDS = Path(__file__).parents[2] / "build" / "spec"
MARK = "spec"


class Recorder:
    """A pytest plugin. A test that failed once, under any of its parameters, shows nothing."""

    def __init__(self, words: list[str]) -> None:
        self._name = hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]
        self._rules = load_rules()
        self._marked: dict[str, tuple[str, ...]] = {}
        self._failed: set[str] = set()
        self._shown: defaultdict[str, set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            named = tuple(rule for mark in item.iter_markers(MARK) for rule in mark.args)
            for rule in named:
                if rule not in self._rules:
                    raise pytest.UsageError(f"{item.nodeid} is marked with a rule that no table has: {rule}")
            if named:
                self._marked[item.nodeid] = named

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.partition("[")[0]
        if report.failed:
            self._failed.add(test)
        elif report.when == "call" and report.passed:
            for rule in self._marked.get(report.nodeid, ()):
                self._shown[rule].add(test)

    def pytest_sessionfinish(self) -> None:
        if not self._shown:
            return
        shown = {rule: sorted(tests - self._failed) for rule, tests in sorted(self._shown.items())}
        RECORDS.mkdir(parents=True, exist_ok=True)
        (RECORDS / f"{self._name}.json").write_text(json.dumps(shown))
