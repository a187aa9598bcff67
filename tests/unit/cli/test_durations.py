"""Durations in the options of commands."""

from __future__ import annotations

import pytest

from cns_cli.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("90s", 90_000),
        ("45m", 2_700_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("0s", 0),
        ("", None),
        ("h", None),
        ("2", None),
        ("2w", None),
        ("-2h", None),
        ("2h ", None),
        ("٢h", None),
        ("1000000000s", None),
    ],
)
def test_duration(text: str, expected_ms: int | None) -> None:
    assert duration_ms(text) == expected_ms
