"""Marks of parameters: the rules that they show, and what only `make test-all` runs."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

ALL = "TEST_ALL"
"""A variable that `make test-all` sets."""


def examples(n: int) -> int:
    """`n` examples in `make test-all`, else a tenth."""
    return n if os.environ.get(ALL) else -(-n // 10)


def extended(*values: object) -> list[ParameterSet]:
    """These values of a parameter, or tuples of values of several parameters, marked `extended`."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.extended) for value in values
    ]


def first(values: Iterable[object], n: int = 1) -> list[ParameterSet]:
    """The first `n` as they are, all others `extended`."""
    every = list(values)
    kept = [pytest.param(*(value if isinstance(value, tuple) else (value,))) for value in every[:n]]
    return kept + extended(*every[n:])


def case(rules: str | tuple[str, ...], *values: object) -> ParameterSet:
    """Values of parameters that show this rule of tests/spec, or these."""
    return pytest.param(*values, marks=pytest.mark.spec(*(rules if isinstance(rules, tuple) else (rules,))))
