"""Receives that wait where the messages are: each ends with what came, at its time, or when its user wants no more."""

from __future__ import annotations

import asyncio

import pytest

from cqs.engines.contract import LongPolls, ReceiveResult
from tests.conformance.support import HIDE_MS, POLL_S, Desk, bodies, numbered

pytestmark = pytest.mark.differs_by_engine

SHORT_S = 0.2


def _receive(desk: Desk, waits: LongPolls, want: int = 10, wait_s: float = POLL_S) -> asyncio.Task[ReceiveResult]:
    return asyncio.create_task(waits.receive(desk.q, want, HIDE_MS, wait_s))


async def _waiting(desk: Desk, waits: LongPolls, n: int = 1) -> list[asyncio.Task[ReceiveResult]]:
    """So many receives that have looked, and found nothing."""
    receives = [_receive(desk, waits, want=1) for _ in range(n)]
    await asyncio.sleep(SHORT_S)  # a look may take an engine's way to its servers; then it waits
    assert not any(receive.done() for receive in receives)
    return receives


async def test_what_is_there_is_handed_out_at_once_and_leased(desk: Desk) -> None:
    await desk.send(*numbered(3), group="g")
    waits = desk.engine.long_polls()
    received = await asyncio.wait_for(_receive(desk, waits), POLL_S / 2)
    assert bodies(received.messages) == numbered(3)
    assert not await desk.take()
    gone_by_ms = desk.clock.now_ms() - desk.now_ms  # it is hidden by the engine's clock, which the desk read before
    desk.later(gone_by_ms + HIDE_MS)
    assert bodies(await desk.take()) == numbered(3)


async def test_what_comes_ends_one_wait(desk: Desk) -> None:
    waits = desk.engine.long_polls()
    receives = await _waiting(desk, waits, 3)
    await desk.send(b"one", group="g")
    done, _ = await asyncio.wait(receives, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
    assert [bodies(receive.result().messages) for receive in done] == [[b"one"]]
    waits.stop()
    assert sum(len(received.messages) for received in await asyncio.gather(*receives)) == 1


async def test_a_wait_ends_with_its_time(desk: Desk) -> None:
    waits = desk.engine.long_polls()
    longer = _receive(desk, waits)
    assert not (await _receive(desk, waits, wait_s=SHORT_S)).messages
    assert not longer.done(), "each has a time of its own"
    waits.stop()
    await longer
    await desk.send(b"one", group="g")
    assert bodies(await desk.take()) == [b"one"], "who waits no more leases nothing"


async def test_a_stop_ends_all_of_one_user_and_takes_nothing_from_others(desk: Desk) -> None:
    leaving, staying = desk.engine.long_polls(), desk.engine.long_polls()
    left, stay = await _waiting(desk, leaving, 2), await _waiting(desk, staying, 1)
    leaving.stop()
    assert [len(received.messages) for received in await asyncio.gather(*left)] == [0, 0]
    await desk.send(b"one", group="g")
    assert bodies((await asyncio.wait_for(stay[0], POLL_S)).messages) == [b"one"]
    assert not (await asyncio.wait_for(_receive(desk, leaving), POLL_S / 2)).messages, "it waits no more"
