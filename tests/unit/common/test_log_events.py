"""Log events are facts in the past tense, and the operations guide has all of them with their levels."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import cns
from tests.operator_docs import section

ROOT = Path(cns.__file__).parents[1]
PACKAGES = (
    "cns",
    "cns_backend",
    "cns_cli",
    "cns_common",
    "cns_pipeline",
    "cns_receiver",
    "cns_server",
    "cqs",
    "workers",
)
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
OF_THE_MESSAGE = "of the message"
"""The guide's level of an event whose level is not a literal in the code."""
FACT = re.compile(r"[a-z]+(_[a-z]+)*\.([a-z]+_)*([a-z]+ed|lost|died)(_[a-z]+)?")


def names_in(argument: ast.expr, tree: ast.Module) -> Iterator[str]:
    """The texts that the first argument of a log call may have: a text, a choice, or a variable with one of these."""
    if isinstance(argument, ast.IfExp):
        yield from names_in(argument.body, tree)
        yield from names_in(argument.orelse, tree)
    elif isinstance(argument, ast.Name):
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        values = [node.value for node in assigned if ast.unparse(node.targets[0]) == argument.id]
        assert values, argument.id
        for value in values:
            yield from names_in(value, tree)
    else:
        assert isinstance(argument, ast.Constant), ast.unparse(argument)
        assert isinstance(argument.value, str)
        yield argument.value


def events_in(source: str) -> Iterator[tuple[str, str]]:
    """Name and level of each event that a module logs."""
    tree = ast.parse(source)
    if "structlog.get_logger" not in source:
        return
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and "get_logger" in ast.unparse(node)]
    assert [ast.unparse(node) for node in assigned] == ["log = structlog.get_logger(__name__)"]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == "log"
        ):
            level = node.func.attr
            assert level in LEVELS | {"log"}, f"log.{level}"
            for name in names_in(node.args[level == "log"], tree):
                yield name, OF_THE_MESSAGE if level == "log" else level


def logged() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]:
        for name, level in events_in(path.read_text()):
            found[name].add(level)
    return found


def test_events_are_facts_in_the_past_tense() -> None:
    assert [name for name in logged() if not FACT.fullmatch(name)] == []


def test_the_operations_guide_has_each_event_with_its_levels() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \| ([^|]+) \|", section("Log events"), re.MULTILINE)
    assert [name for name, _, _ in rows] == sorted(name for name, _, _ in rows)
    assert {name: set(levels.split(", ")) for name, levels, _ in rows} == logged()
    assert all(meaning.strip() for _, _, meaning in rows)
