"""Frozen test time beside the clock of a real Redis, on a machine that stalls."""

from __future__ import annotations

import hashlib

import pytest

from cns_common.cluster import view
from cqs.engines import cluster
from cqs.engines.cluster import cache_failover, known_queues, queue_contents
from cqs.engines.cluster.redis import cache as redis_cache
from cqs.engines.cluster.redis import script_calls, scripts
from lab.harness.waiting import PATIENCE_S

TOLERATED_MS = 30_000


def tolerate_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for Redis and for fills: on a machine that stalls a receive during a fill, or before Redis is in use,
    may return nothing, and a lease whose answer came too late ends by its timeout, for which no test waits."""
    monkeypatch.setattr(cluster, "START_S_MAX", PATIENCE_S)
    monkeypatch.setattr(cache_failover, "SWITCH_WAIT_S", PATIENCE_S)
    monkeypatch.setattr(known_queues, "FILL_WAIT_S", PATIENCE_S)
    monkeypatch.setattr(queue_contents, "BY_ROWS_S", PATIENCE_S)
    monkeypatch.setattr(redis_cache, "TIMEOUT_S", redis_cache.TIMEOUT_S * 30)
    monkeypatch.setattr(view, "RENEW_TIMEOUT_S", view.RENEW_TIMEOUT_S * 30)


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
