"""The longest increasing subsequence of a sequence that is read in parts, against quadratic search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from cns_pipeline.transforms.audit.subsequence import IncreasingSubsequence
from tests.pipeline.audit.oracle import measure


def shuffled(random: Random, n: int) -> list[int]:
    return random.sample(range(2 * n), n)


def nearly_ordered(random: Random, n: int) -> list[int]:
    return sorted(range(n), key=lambda value: value + random.random() * 4)


def late_first(_: Random, n: int) -> list[int]:
    return [*range(1, n), 0] if n else []


@pytest.mark.parametrize("make", [shuffled, nearly_ordered, late_first])
def test_it_is_as_long_as_the_longest(make: Callable[[Random, int], list[int]]) -> None:
    random = Random(5)
    for _ in range(200):
        values = make(random, random.randint(0, 40))
        assert longest(random, values) == measure(values)[0] - measure(values)[1], values


def longest(random: Random, values: Sequence[int]) -> int:
    subsequence, at = IncreasingSubsequence(), 0
    while at < len(values):
        step = random.randint(1, 7)
        subsequence.extend(values[at : at + step])
        at += step
    return len(subsequence)
