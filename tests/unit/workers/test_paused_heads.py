"""Heads that wait for the resumption of their subscriptions: how many are kept, and when they are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cns.queue_port.contract import Renewal
from cns_common.errors import StoreUnavailable
from cns_workers.consumers import paused_heads
from cns_workers.consumers.hidden_lanes import SHOWN_A_STEP
from cns_workers.consumers.paused_heads import READ_AT_ONCE, WAVE_S, HiddenHandles, PausedHeads

HIDDEN_S = 300.0


class Targets:
    """Subscriptions that are paused or not. Nothing is announced, unless a test calls `changed`."""

    def __init__(self, *paused: str) -> None:
        self.paused = set(paused)
        self.reads: list[int] = []
        self.away = False
        self.changed: list[Callable[[str], None]] = []
        self.all_changed: list[Callable[[], None]] = []

    async def find(self, arns: Sequence[str]) -> list[Any]:
        if self.away:
            raise StoreUnavailable("away")
        self.reads.append(len(arns))
        return [SimpleNamespace(arn=arn, paused=arn in self.paused) for arn in arns]


class Port:
    """Notes which heads are shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.largest = 0

    async def settle(self, queue: str, *, renewals: Sequence[Renewal]) -> None:
        assert all(renewal.visible_in_ms == 0 for renewal in renewals)
        self.largest = max(self.largest, len(renewals))
        self.shown += [renewal.handle for renewal in renewals]


async def until(condition: Callable[[], bool], turns: int = 1_000) -> None:
    """Let other tasks run, so many turns of the event loop at most, until the condition holds."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"not within {turns} turns")


def heads(port: Port, targets: Targets) -> PausedHeads:
    return PausedHeads("q.fifo", port, targets)  # type: ignore[arg-type]  # they have what it uses


@pytest.mark.extended
async def test_a_resumption_shows_all_heads_of_a_worker_that_hid_more_than_200_000() -> None:
    port, targets = Port(), Targets("a")
    paused = heads(port, targets)
    handles = [f"{n:032x}" for n in range(250_000)]
    for handle in handles:
        await paused.note("a", handle, HIDDEN_S)
    assert (paused.count(), port.shown) == (len(handles), [])
    targets.paused.clear()
    targets.changed[0]("a")
    await until(lambda: len(port.shown) == len(handles), turns=100_000)
    assert (port.shown, port.largest, paused.count()) == (handles, SHOWN_A_STEP, 0)


async def test_a_resumption_that_nobody_announced_is_found_when_the_cache_is_emptied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paused_heads, "READ_PAUSE_S", 0)
    arns = [f"arn{n}" for n in range(2 * READ_AT_ONCE + 1)]
    port, targets = Port(), Targets(*arns)
    paused = heads(port, targets)
    for arn in arns:
        await paused.note(arn, f"handle of {arn}", HIDDEN_S)
    targets.paused.discard("arn7")
    targets.reads.clear()
    targets.all_changed[0]()
    targets.all_changed[0]()  # one look at a time
    await until(lambda: len(targets.reads) == 3)
    await until(lambda: port.shown == ["handle of arn7"])
    assert targets.reads == [READ_AT_ONCE, READ_AT_ONCE, 1]
    assert paused.count() == len(arns) - 1


async def test_a_head_that_is_noted_after_the_resumption_is_shown_at_once() -> None:
    port = Port()
    await heads(port, Targets()).note("a", "1", HIDDEN_S)
    await until(lambda: port.shown == ["1"])


async def test_while_the_store_is_away_heads_are_shown_after_an_announcement_only() -> None:
    port, targets = Port(), Targets("a")
    paused = heads(port, targets)
    await paused.note("a", "1", HIDDEN_S)
    targets.away = True
    targets.all_changed[0]()
    for _ in range(10):
        await asyncio.sleep(0)
    assert port.shown == []
    targets.changed[0]("a")
    await until(lambda: port.shown == ["1"])


def test_handles_are_forgotten_when_their_heads_are_visible() -> None:
    hidden = HiddenHandles()
    hidden.add("a", "1", 0.0, 60.0)
    hidden.add("a", "2", 0.0, 120.0)
    hidden.add("b", "3", 0.0, 60.0)
    hidden.forget_visible(60.0 - WAVE_S)
    assert len(hidden) == 3
    hidden.forget_visible(60.0)
    assert (len(hidden), hidden.subscriptions()) == (1, ["a"])
    assert list(hidden.take("a")) == ["2"]
    hidden.add("a", "4", 61.0, 59.0)  # part of the wave that was taken
    hidden.forget_visible(120.0)
    assert (len(hidden), "a" in hidden, list(hidden.take("a"))) == (0, False, [])


def test_handles_beyond_the_bytes_are_not_kept_until_there_is_room() -> None:
    hidden = HiddenHandles(bytes_max=1_000)
    for n in range(100):
        hidden.add("a", f"{n:031}", 0.0, 60.0)
    assert 10 < len(hidden) < 30
    hidden.forget_visible(60.0)
    hidden.add("a", "later", 60.0, 60.0)
    assert list(hidden.take("a")) == ["later"]
