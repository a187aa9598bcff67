"""Parameters that only `make test-all` runs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


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
