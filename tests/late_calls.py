"""Frozen test time beside the clock of a real Redis."""

from __future__ import annotations

import hashlib

import pytest

from cqs.engines.cluster.redis import script_calls, scripts

TOLERATED_MS = 30_000


def tolerate_late_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Lua scripts take the caller's time as it is, up to `TOLERATED_MS` beside Redis' clock.

    A call that reaches Redis late looks like one of a clock that is behind: what it adds becomes visible that much
    later. Time goes on and nobody notices, but to a test whose time stands still the message never becomes visible.
    """
    before, after = (f"local TOLERATED_MS, MEMBER = {ms}," for ms in (scripts.TOLERATED_MS, TOLERATED_MS))
    for script in vars(script_calls).values():
        if isinstance(script, script_calls.Script):
            assert script.text.count(before) == 1
            text = script.text.replace(before, after)
            monkeypatch.setattr(script, "text", text)
            monkeypatch.setattr(script, "sha", hashlib.sha1(text.encode()).hexdigest())
