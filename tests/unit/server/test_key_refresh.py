"""`cns_server.key_refresh`: one read of the keys at a time, and the newest answer stays."""

from __future__ import annotations

import asyncio

from cns_common.aws.auth.access_keys import new_key
from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.errors import StoreUnavailable
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
