"""At most one line a second, with the number of suppressed ones."""

from __future__ import annotations

import logging

from cns_common.log_throttle import INTERVAL_S, LogThrottle, ThrottledRecords


class Now:
    s = 50.0

    def __call__(self) -> float:
        return self.s


def test_one_line_a_second_with_a_count() -> None:
    now = Now()
    throttle = LogThrottle(now)
    assert [throttle.admit() for _ in range(4)] == [0, None, None, None]
    now.s += INTERVAL_S
    assert [throttle.admit() for _ in range(2)] == [3, None]
    now.s += 10 * INTERVAL_S
    assert throttle.admit() == 1


def test_several_lines_a_second() -> None:
    now = Now()
    throttle = LogThrottle(now, 3)
    assert [throttle.admit() for _ in range(5)] == [0, 0, 0, None, None]
    now.s += INTERVAL_S
    assert [throttle.admit() for _ in range(4)] == [2, 0, 0, None]


def test_records_of_each_text_have_their_own_count() -> None:
    now = Now()
    lines = ThrottledRecords(now)

    def shown(text: str) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, None, None)
        return record.getMessage() if lines.filter(record) else None

    assert [shown("bad"), shown("bad"), shown("worse"), shown("bad")] == ["bad", None, "worse", None]
    now.s += INTERVAL_S
    assert shown("bad") == "bad (and 2 more since the last line)"


def test_texts_without_end_are_one_kind() -> None:
    lines = ThrottledRecords(Now())
    admitted = [
        lines.filter(logging.LogRecord("x", logging.WARNING, "", 0, f"bad {number}", None, None))
        for number in range(2 * ThrottledRecords.KINDS_MAX)
    ]
    assert sum(admitted) == ThrottledRecords.KINDS_MAX + 1
