"""The limits of the filter policy language. What is in `FilterLimits` may be set otherwise."""

from __future__ import annotations

import msgspec

POLICY_BYTES_MAX = 262_144
NESTING_MAX = 150
"""A key deeper than this is too complex, whatever the limit of complexity: nothing here recurses further."""
PATH_CHARS_MAX = 1_024
"""Of the keys that lead to a value, joined by dots. A body's longer ones are passed over: no policy can name them."""
OR_BRANCHES_MIN = 2
STARS_MAX = 3
"""In one wildcard pattern."""
NUMBER_MAX = 1_000_000_000
"""What `numeric` and `anything-but` compare with, above and below zero."""
COMPILED_MAX = 4_096
"""Policies remembered in compiled form."""


class FilterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one policy; the defaults are AWS's."""

    keys: int = 5
    complexity: int = 150
    wildcard_points: int = 100


DEFAULT = FilterLimits()
