"""The limits of the filter policy language. Those in `FilterLimits` can be configured."""

from __future__ import annotations

import msgspec

POLICY_BYTES_MAX = 262_144
NESTING_MAX = 150
"""A key that is nested deeper is too complex, whatever the configured complexity. It bounds recursion."""
PATH_CHARS_MAX = 1_024
"""The length of a path: the keys of nested objects, joined by dots. Longer paths in a body are ignored, because no
policy can name them."""
OR_BRANCHES_MIN = 2
STARS_MAX = 3
"""Stars in one wildcard pattern."""
NUMBER_MAX = 1_000_000_000
"""The greatest absolute value in `numeric` and in `anything-but`."""
COMPILED_CACHE_MAX = 4_096
"""Compiled policies in the cache."""


class FilterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one policy. The defaults are those of AWS."""

    keys: int = 5
    complexity: int = 150
    wildcard_points: int = 100


DEFAULT_LIMITS = FilterLimits()
