"""Batching of calls: which calls share a request, and that each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cns.queue_port import batching as queue_http_together
from cns.queue_port.batching import Batcher, Weight
from cns_common.errors import StoreUnavailable


class Requests:
    """Answers each item with its double when the test releases the request."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self._ends: list[asyncio.Future[None]] = []

    async def send(self, items: Sequence[int]) -> list[int]:
        self.begun.append(list(items))
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        await end
        return [2 * item for item in items]

    async def end(self, number: int, error: Exception | None = None) -> None:
        if error is None:
            self._ends[number].set_result(None)
        else:
            self._ends[number].set_exception(error)
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def together(requests: Requests) -> Batcher[int, int]:
    """An item's value is its size; a request holds three."""
    return Batcher(requests.send, lambda item: Weight(1, item), 3)


def calls(together: Batcher[int, int], *items: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(together.call(item)) for item in items]


async def test_what_comes_while_requests_are_under_way_goes_together(
    requests: Requests, together: Batcher[int, int]
) -> None:
    tasks = calls(together, 1)
    await settled()
    tasks += calls(together, 2)
    await settled()
    for item in (3, 4, 5, 6):
        tasks += calls(together, item)
        await settled()
    assert requests.begun == [[1], [2]]
    await requests.end(1)
    assert requests.begun == [[1], [2], [3, 4, 5]]
    await requests.end(0)
    assert requests.begun == [[1], [2], [3, 4, 5], [6]]
    await requests.end(2)
    await requests.end(3)
    assert [await task for task in tasks] == [2, 4, 6, 8, 10, 12]


async def test_what_comes_in_one_turn_goes_together(requests: Requests, together: Batcher[int, int]) -> None:
    tasks = calls(together, 1, 2)
    await settled()
    assert requests.begun == [[1, 2]]
    await requests.end(0)
    assert [await task for task in tasks] == [2, 4]


async def test_a_large_item_goes_alone(
    requests: Requests, together: Batcher[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_http_together, "BYTES_MAX", 10)
    tasks = calls(together, 4, 6, 1, 100)
    await settled()
    await requests.end(0)
    await requests.end(1)
    await requests.end(2)
    assert requests.begun == [[4, 6], [1], [100]]
    await asyncio.gather(*tasks)


async def test_a_failure_is_for_all_of_a_request_and_no_other(requests: Requests, together: Batcher[int, int]) -> None:
    tasks = calls(together, 1, 2, 3, 4)
    await settled()
    await requests.end(0, StoreUnavailable("away"))
    await requests.end(1)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, StoreUnavailable) for result in results] == [True, True, True, False]


async def test_a_caller_that_gives_up_takes_nobody_along(requests: Requests, together: Batcher[int, int]) -> None:
    first, second = calls(together, 1, 2)
    await settled()
    first.cancel()
    await requests.end(0)
    assert await second == 4
    assert first.cancelled()
