"""A class that has all methods of a contract names the contract as a base, so that an editor finds the drivers."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
METHODS_MIN = 3
"""Contracts of fewer methods, such as `close` and `samples`, are met by chance."""


class _Class(NamedTuple):
    where: str
    bases: frozenset[str]
    methods: frozenset[str]


def test_drivers_name_their_contract() -> None:
    classes: dict[str, list[_Class]] = {}
    for found in _classes():
        classes.setdefault(found.where.rpartition(":")[2], []).append(found)
    everything = [one for named in classes.values() for one in named]
    contracts = [one for one in everything if "Protocol" in one.bases and len(one.methods) >= METHODS_MIN]
    assert len(contracts) > 20
    missing = [
        f"{one.where} does not name {contract.where}"
        for contract in contracts
        for one in everything
        if contract.methods <= _all_methods(one, classes) and contract not in _lineage(one, classes)
    ]
    assert not missing


def _classes() -> Iterator[_Class]:
    for package in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]:
        folder = ROOT / package if (ROOT / package).exists() else ROOT / "workers" / package
        for file in () if package in ("tests", "lab") else folder.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                    functions = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
                    methods = [one.name for one in functions if not one.name.startswith("_")]
                    yield _Class(f"{file.relative_to(ROOT)}:{node.name}", frozenset(bases), frozenset(methods))


def _lineage(one: _Class, classes: dict[str, list[_Class]]) -> list[_Class]:
    """The class and all its bases, which are known by their names."""
    parents = [up for base in one.bases for up in classes.get(base, []) if base != one.where.rpartition(":")[2]]
    return [one, *(up for parent in parents for up in _lineage(parent, classes))]


def _all_methods(one: _Class, classes: dict[str, list[_Class]]) -> frozenset[str]:
    return frozenset().union(*(up.methods for up in _lineage(one, classes)))


def test_the_rule_between_engines_names_each_engine() -> None:
    """The folder that engines on Cassandra share has no engine."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (named,) = [rule["modules"] for rule in rules if rule["name"] == "queue engines do not import one another"]
    packages = {file.parent.name for file in (ROOT / "cqs/engines").glob("*/__init__.py")} - {"cassandra"}
    assert {name.rpartition(".")[2] for name in named} == packages
