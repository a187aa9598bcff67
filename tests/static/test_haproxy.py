"""The configuration of HAProxy."""

from __future__ import annotations

import re
from pathlib import Path

from lab.faults.restarts.rounds import PAUSE_S

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
NOTICED_S_MAX = 3


def test_a_process_that_refuses_callers_is_noticed_within_three_seconds() -> None:
    """A refused check fails at once; one that hangs counts as slow."""
    (checks,) = re.findall(r"default-server check inter (\d+)s fall (\d+)", CONFIGURATION.read_text())
    interval_s, fall = map(int, checks)
    assert interval_s * (fall + 1) <= NOTICED_S_MAX


def test_a_process_that_is_back_is_noticed_before_the_other_one_is_stopped() -> None:
    (interval_ms,) = re.findall(r"default-server check .*\bdowninter (\d+)ms", CONFIGURATION.read_text())
    assert int(interval_ms) < PAUSE_S[0] * 1_000
