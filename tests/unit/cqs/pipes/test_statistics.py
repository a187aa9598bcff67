"""Rates that roll over a minute, and the messages of each hour."""

from __future__ import annotations

import pytest

from cqs.engines.pipes.statistics import hours_between, next_statistics
from cqs.engines.views import HourStatistics, QueueStatistics


def test_a_steady_rate_is_reached() -> None:
    statistics: QueueStatistics | None = None
    for second in range(600):
        statistics = next_statistics(statistics, second * 1_000, pushed=50 * second, popped=20 * second)
    assert statistics is not None
    assert statistics.pushed_per_s == pytest.approx(50, rel=0.01)
    assert statistics.popped_per_s == pytest.approx(20, rel=0.01)
    assert statistics.depth == 599 * 30


def test_the_rate_does_not_depend_on_how_often_it_is_written_down() -> None:
    every_second = next_statistics(None, 0, 0, 0)
    for second in range(1, 31):
        every_second = next_statistics(every_second, second * 1_000, 10 * second, 0)
    at_once = next_statistics(next_statistics(None, 0, 0, 0), 30_000, 300, 0)
    assert every_second.pushed_per_s == pytest.approx(at_once.pushed_per_s)


def test_a_rate_falls_at_rest() -> None:
    before = QueueStatistics(0, 100, 100, 10.0, 10.0)
    after = next_statistics(before, 60_000, 100, 100)
    assert after.pushed_per_s == pytest.approx(10.0 * 0.3679, rel=0.01)
    assert after.depth == 0


def test_a_clock_that_stands_still_gives_no_rate() -> None:
    before = QueueStatistics(5_000, 1, 1, 3.0, 3.0)
    assert next_statistics(before, 5_000, 9, 9) == QueueStatistics(5_000, 9, 9)


@pytest.mark.parametrize(
    ("rows", "hours"),
    [
        ([], []),
        ([(0, 0, 0)], []),
        ([(1, 5, 2), (0, 0, 0)], [HourStatistics(1, 5, 2, 3)]),
        ([(9, 7, 7), (1, 5, 2), (0, 0, 0)], [HourStatistics(9, 2, 5, 0), HourStatistics(1, 5, 2, 3)]),
        ([(9, 7, 7), (1, 5, 2)], [HourStatistics(9, 2, 5, 0)]),  # the row before the first has expired
        ([(2, 4, 4), (1, 5, 3), (0, 0, 0)], [HourStatistics(2, 0, 1, 0), HourStatistics(1, 5, 3, 2)]),
    ],
)
def test_what_came_in_each_hour(rows: list[tuple[int, int, int]], hours: list[HourStatistics]) -> None:
    assert hours_between(rows) == hours
