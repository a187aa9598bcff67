"""A process that loses Redis again and again returns to it later each time."""

from __future__ import annotations

from cqs.engines.cluster.cache_switch import RETURN_PAUSE_MS, RETURN_PAUSE_MS_MAX, UNSTEADY_MS, ReturnPause


def test_the_first_loss_has_no_pause() -> None:
    pause = ReturnPause()
    assert pause.is_over(0)
    pause.note_loss(1_000)
    assert pause.is_over(1_000)


def test_each_further_loss_doubles_the_pause() -> None:
    pause, now_ms, expected_ms = ReturnPause(), 0, 0
    for _ in range(10):
        pause.note_loss(now_ms)
        assert pause.is_over(now_ms + expected_ms)
        assert not expected_ms or not pause.is_over(now_ms + expected_ms - 1)
        now_ms += expected_ms + 1
        expected_ms = min(2 * expected_ms or RETURN_PAUSE_MS, RETURN_PAUSE_MS_MAX)
    assert expected_ms == RETURN_PAUSE_MS_MAX


def test_a_loss_long_after_another_is_a_first_one() -> None:
    pause = ReturnPause()
    for now_ms in (0, 1, 2):
        pause.note_loss(now_ms)
    later_ms = 3 * UNSTEADY_MS
    pause.note_loss(later_ms)
    assert pause.is_over(later_ms)
