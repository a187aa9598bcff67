"""Messages are leased by decisions that hold before and after the cache's answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cns_common.cluster.view import View
from cqs.engines.cluster.cache_contract import LeaseRequest, LeaseResult, MessageLease
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation
from cqs.engines.cluster.known_queues import ClusterKnownQueue
from cqs.engines.cluster.leasing import MessageLeasing
from cqs.engines.cluster.servers import router as router_module
from cqs.engines.cluster.servers.layout import Layout, ServerAddress
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.contract import QueueRef

REQUEST = LeaseRequest(0, 10, 30_000, 0)
TAKEN = LeaseResult((MessageLease(DeliveryKey("e", 1, MessageLocation("b", 1)), 1, 0, False),))
QUEUE = ClusterKnownQueue(QueueRef("q", False, 1), 0)


class FakeFailover(CacheFailover):
    def __init__(self) -> None:
        self.epoch: int | None = 1
        self.during: Callable[[], object] = lambda: None
        self.answers = 0
        self.undone = 0

    async def certain_epoch(self) -> int | None:
        return self.epoch

    def is_certain_of(self, epoch: int) -> bool:
        return epoch == self.epoch

    async def ask(self, question: Any) -> Any:
        self.answers += 1
        self.during()
        return TAKEN

    async def undo_lease(self, *_: object) -> None:
        self.undone += 1

    def count_lookup(self, taken: LeaseResult | None) -> None:
        assert taken is TAKEN


class FakeView(View):
    is_certain = True

    def __init__(self) -> None:
        self.epoch = 1
        self.asked = 0

    async def ensure_certain(self) -> None:
        self.asked += 1


class Caches:
    """One server, on a layout that is settled."""

    def __init__(self) -> None:
        self.server, self.view = FakeFailover(), FakeView()
        self.router = CacheRouter(FakeFailover(), None, self.view)  # type: ignore[arg-type]  # nothing is buffered
        self.router.add("a", self.server)
        self.router.begin(Layout.first((ServerAddress("a", ""),)))
        self.router.settle()

    async def take(self) -> LeaseResult:
        leasing = MessageLeasing(self.router, None)  # type: ignore[arg-type]  # no cache is filled
        return await leasing.take(QUEUE, REQUEST)


async def test_what_is_certain_twice_is_given() -> None:
    caches = Caches()
    assert await caches.take() is TAKEN
    assert (caches.server.answers, caches.server.undone) == (1, 0)


async def test_what_came_too_late_is_undone() -> None:
    caches = Caches()

    def lose_certainty() -> None:
        caches.view.is_certain = False

    caches.server.during = lose_certainty
    assert await caches.take() == LeaseResult()
    assert (caches.server.answers, caches.server.undone) == (1, 1)


async def test_a_layout_that_came_and_went_meanwhile_counts() -> None:
    """The shard is where it was, and this process is certain again."""
    caches = Caches()

    def follow_two_layouts() -> None:
        caches.view.epoch += 2
        caches.server.during = lambda: None

    caches.server.during = follow_two_layouts
    assert await caches.take() is TAKEN
    assert (caches.server.answers, caches.server.undone) == (2, 1)


async def test_nothing_is_asked_of_a_server_that_changes() -> None:
    caches = Caches()
    caches.server.epoch = None
    assert await caches.take() == LeaseResult()
    assert (caches.server.answers, caches.server.undone) == (0, 0)


async def test_nothing_is_asked_while_the_layout_is_uncertain() -> None:
    caches = Caches()
    caches.view.is_certain = False
    assert await caches.take() == LeaseResult()
    assert caches.view.asked and not caches.server.answers


async def test_a_reset_goes_on_until_it_was_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "RESET_PAUSE_S", 0)
    caches = Caches()

    def begin_next_epoch() -> None:
        caches.server.epoch = (caches.server.epoch or 0) + 1
        caches.server.during = lambda: None

    caches.server.during = begin_next_epoch
    await caches.router.reset("q", 1)
    assert caches.server.answers == 2
