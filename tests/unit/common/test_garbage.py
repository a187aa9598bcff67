"""The number of objects that one garbage collection visits; all calls of the process wait for it."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Iterator

import pytest

from cns_common.process.gc_tuning import POLL_INTERVAL_S, short_gc_pauses

LIVING = 20_000
STEPS_A_LOOK, LOOKS, RENEWED_A_STEP = 25, 20, 50


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


async def test_few_are_young_though_as_many_old_ones_end_as_new_ones_begin() -> None:
    living: deque[dict[int, list[int]]] = deque({n: []} for n in range(LIVING))  # like the objects of hanging sends
    young: list[int] = []
    with short_gc_pauses():
        for _ in range(LOOKS):
            for step in range(STEPS_A_LOOK):
                for _ in range(RENEWED_A_STEP):
                    living.popleft()
                    living.append({step: []})
                await asyncio.sleep(POLL_INTERVAL_S / STEPS_A_LOOK)
            young.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))
    assert max(young) < 4 * STEPS_A_LOOK * RENEWED_A_STEP * 2, "of a dictionary and a list each"


async def test_nothing_looks_on_when_it_is_over() -> None:
    before = _collections()
    with short_gc_pauses():
        await asyncio.sleep(2 * POLL_INTERVAL_S)
    looks = _collections()
    assert looks > before
    await asyncio.sleep(4 * POLL_INTERVAL_S)
    assert _collections() == looks


def _collections() -> int:
    """Collections of the two young generations so far."""
    return sum(each["collections"] for each in gc.get_stats()[:2])
