"""`python -m tests.spec.page`: which tests showed which rules, joined into build/conformance.md.

After a run of all tests. Fails when a rule has neither a test nor a reason, and when too many rules have only a reason.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from tests.spec.record import RECORDS
from tests.spec.rules import Rule, load_rules

PAGE = Path(__file__).parents[2] / "build" / "conformance.md"
UNTESTED_SHARE_MAX = 0.05

Shown = dict[str, list[str]]
"""Tests by rule."""


def main() -> int:
    rules, shown = load_rules(), _shown()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(_tables(rules, shown)) + "\n")
    faults = _faults(rules, shown)
    for fault in faults:
        print(fault)
    print(f"rules: {sum(rule in shown for rule in rules)} passed, {len(faults)} failed")
    return 1 if faults else 0


def _shown() -> Shown:
    shown: defaultdict[str, set[str]] = defaultdict(set)
    for record in RECORDS.glob("*.json"):
        for rule, tests in json.loads(record.read_text()).items():
            shown[rule].update(tests)
    return {rule: sorted(tests) for rule, tests in shown.items() if tests}


def _faults(rules: dict[str, Rule], shown: Shown) -> list[str]:
    faults = []
    for rule in rules.values():
        if rule.untested and rule.id in shown:
            faults.append(f"{rule.id}: tested, and said not to be")
        elif not (rule.untested or rule.apart or rule.id in shown):
            faults.append(f"{rule.id}: neither test nor reason")
    untested = sum(bool(rule.untested) for rule in rules.values())
    if untested > UNTESTED_SHARE_MAX * len(rules):
        faults.append(f"{untested} of {len(rules)} rules have a reason instead of a test")
    return faults


def _tables(rules: dict[str, Rule], shown: Shown) -> list[str]:
    tested = sum(bool(shown.get(rule)) for rule in rules)
    lines = ["# Rules of SQS and SNS, and the tests that show them", "", "Each row is one thing that a caller can see."]
    lines += [f"{len(rules)} rules, {tested} shown by tests that passed.", ""]
    lines += ["| service | operation | rules | tests |", "|---|---|---|---|", *_operations(rules, shown), ""]
    for service, part in dict.fromkeys((rule.service, rule.part) for rule in rules.values()):
        lines += [f"## {service}: {part}", "", "| rule | operations | shown by |", "|---|---|---|"]
        own = [rule for rule in rules.values() if (rule.service, rule.part) == (service, part)]
        lines += [_row(rule, shown.get(rule.id, [])) for rule in own]
        lines.append("")
    lines += ["## Different on purpose", "", "| service | rule | here |", "|---|---|---|"]
    different = [rule for rule in rules.values() if rule.differs]
    lines += [f"| {rule.service} | {_plain(rule.says)} | {_plain(rule.differs)} |" for rule in different]
    return lines


def _operations(rules: dict[str, Rule], shown: Shown) -> list[str]:
    """A line for each operation: rules that name it, and tests that show them. Rules of all operations stand apart."""
    named: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for rule in rules.values():
        for operation in rule.on or ("all",):
            named[rule.service, operation].append(rule.id)
    return [
        f"| {service} | {operation} | {len(ids)} | {len({test for rule in ids for test in shown.get(rule, ())})} |"
        for (service, operation), ids in sorted(named.items())
    ]


def _row(rule: Rule, tests: list[str]) -> str:
    shown = _names(tests) if tests else f"not shown: {rule.untested or f'the stage {rule.apart} did not run'}"
    return f"| {_plain(rule.says)} | {', '.join(rule.on) or 'all'} | {shown} |"


def _plain(text: str) -> str:
    """The text with Markdown's special characters escaped."""
    return text.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")


def _names(tests: list[str]) -> str:
    """`file: test, test`, without what all paths and names have in common."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        path, _, name = test.partition("::")
        file = Path(path).relative_to("tests")
        file = file.with_name(file.stem.removeprefix("test_"))
        by_file[str(file)].append(name.rpartition("::")[2].removeprefix("test_"))
    return "; ".join(f"`{file}`: {', '.join(names)}" for file, names in by_file.items())


if __name__ == "__main__":
    sys.exit(main())
