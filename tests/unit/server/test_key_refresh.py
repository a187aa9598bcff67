"""`cns_server.key_refresh`: one read of the keys at a time, and the newest answer stays."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.aws.auth.access_keys import new_key
from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.errors import StoreUnavailable
from cns_server import key_refresh
from cns_server.key_refresh import KeyRefresh


class Reads:
    """Reads that the test answers."""

    def __init__(self) -> None:
        self.open: list[asyncio.Future[list[AccessKey]]] = []

    def __call__(self) -> asyncio.Future[list[AccessKey]]:
        self.open.append(asyncio.get_running_loop().create_future())
        return self.open[-1]


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_change_during_a_read_is_read_once_more() -> None:
    old, new = new_key("111111111111", 0), new_key("111111111111", 0)
    ring, reads = KeyRing([old]), Reads()
    refresh = KeyRefresh(ring, reads)
    for _ in range(3):
        refresh.request()
        await turn()
    assert len(reads.open) == 1
    reads.open[0].set_result([old])
    await turn()
    assert len(reads.open) == 2, "the changes of meanwhile share one read"
    reads.open[1].set_result([new])
    await turn()
    assert (ring.find(old.key_id), ring.find(new.key_id) is None) == (None, False)
    assert len(reads.open) == 2


async def test_a_read_that_fails_leaves_the_keys_and_ends_no_later_one() -> None:
    key = new_key("111111111111", 0)
    ring, reads = KeyRing([key]), Reads()
    refresh = KeyRefresh(ring, reads)
    refresh.request()
    await turn()
    reads.open[0].set_exception(StoreUnavailable("away"))
    await turn()
    assert ring.find(key.key_id) is not None
    refresh.request()
    await turn()
    reads.open[1].set_result([])
    await turn()
    assert ring.find(key.key_id) is None


async def test_calls_with_unknown_keys_share_a_read_that_begins_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_refresh, "LEARN_INTERVAL_S", 0.0)
    new = new_key("111111111111", 0)
    ring, reads = KeyRing([]), Reads()
    refresh = KeyRefresh(ring, reads)
    early = [asyncio.create_task(refresh.learn()) for _ in range(3)]
    await turn()
    late = [asyncio.create_task(refresh.learn()) for _ in range(3)]
    await turn()
    assert len(reads.open) == 1, "the second read waits for the first"
    reads.open[0].set_result([])
    await asyncio.wait(early)
    await turn()
    assert not any(task.done() for task in late)
    reads.open[1].set_result([new])
    assert await asyncio.gather(*early, *late) == [True] * 6
    assert ring.find(new.key_id) is not None
    assert len(reads.open) == 2


async def test_unknown_keys_cause_few_reads_and_hold_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_refresh, "LEARN_INTERVAL_S", 3_600.0)
    refresh = KeyRefresh(KeyRing([]), reads := Reads())
    first = asyncio.create_task(refresh.learn())
    await turn()
    reads.open[0].set_result([])
    assert await first
    waiting = [asyncio.create_task(refresh.learn()) for _ in range(key_refresh.LEARNERS_MAX)]
    await turn()
    assert not await refresh.learn()
    assert len(reads.open) == 1
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_failed_read_for_an_unknown_key_is_the_callers() -> None:
    refresh = KeyRefresh(KeyRing([]), reads := Reads())
    learning = asyncio.create_task(refresh.learn())
    await turn()
    reads.open[0].set_exception(StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable):
        await learning


async def test_a_failed_read_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The announcement of a key that was revoked does not come again."""
    monkeypatch.setattr(key_refresh, "RETRY_S", 0.0)
    key = new_key("111111111111", 0)
    ring, reads = KeyRing([key]), Reads()
    refresh = KeyRefresh(ring, reads)
    refresh.request()
    await turn()
    reads.open[0].set_exception(StoreUnavailable("away"))
    while len(reads.open) == 1:
        await asyncio.sleep(0)
    reads.open[1].set_result([])
    await turn()
    assert ring.find(key.key_id) is None
