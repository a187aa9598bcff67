"""The queue cache: what it keeps, and what it forgets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from cns_common.errors import StoreUnavailable
from cqs.engines.contract import Engine
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.internal_queues import internal_key
from cqs.queues import cache as queue_cache
from cqs.queues.cache import QueueCache
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey


def queue(name: str = "q", version: int = 1, engine: str = "e") -> Queue:
    return Queue(
        id="0" * 32,
        account="0" * 12,
        region="r",
        name=name,
        engine=engine,
        created_ms=1,
        modified_ms=1,
        version=version,
        attributes={"DelaySeconds": str(version)},
    )


class Store:
    """As much of a queue store as the cache needs."""

    def __init__(self) -> None:
        self.changed: list[Callable[[QueueKey], None]] = []
        self.queues: dict[QueueKey, Queue] = {}
        self.reads = 0
        self.after_read: Callable[[], None] = lambda: None

    async def get(self, key: QueueKey) -> Queue | None:
        self.reads += 1
        found = self.queues.get(key)
        self.after_read()
        return found

    def put(self, queue: Queue) -> None:
        self.queues[queue.key] = queue
        for callback in self.changed:
            callback(queue.key)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def cache(store: Store) -> QueueCache:
    engine: Engine = SimpleNamespace(capabilities=EmbeddedEngine.capabilities, options={})
    return QueueCache(store, {"e": engine}, "e", b"key")  # type: ignore[arg-type]  # see Store


async def delay_ms(cache: QueueCache) -> int:
    view = await cache.find(queue().key)
    assert view is not None
    return view.delay_ms


@pytest.mark.spec("handle.older-succeeds")
async def test_older_handles_are_good_for_tenants_standard_queues_alone(store: Store, cache: QueueCache) -> None:
    """Jobs, and FIFO queues, are fenced: only the newest handle is valid."""
    standard, fifo = queue("standard"), queue("q.fifo")
    for each in (standard, fifo):
        store.put(each)
    views = [await cache.find(key) for key in (standard.key, fifo.key, internal_key("publish-jobs"))]
    assert [view.ref_for_handles.older_handles for view in views if view is not None] == [True, False, False]
    assert not any(
        view.ref.older_handles or view.ref_without_redrive.older_handles for view in views if view is not None
    )


async def test_read_once(store: Store, cache: QueueCache) -> None:
    assert await cache.find(queue().key) is None
    store.put(queue())
    assert cache.cached(queue().key) is None
    assert await delay_ms(cache) == await delay_ms(cache) == 1_000
    assert cache.cached(queue().key) is not None
    assert store.reads == 2


async def test_read_anew_after_a_change(store: Store, cache: QueueCache) -> None:
    store.put(queue())
    await delay_ms(cache)
    store.put(queue(version=2))
    assert await delay_ms(cache) == 2_000


async def test_a_change_during_a_read_is_not_lost(store: Store, cache: QueueCache) -> None:
    store.put(queue())
    store.after_read = lambda: store.put(queue(version=2))
    assert await delay_ms(cache) == 1_000  # read, but not cached
    store.after_read = lambda: None
    assert await delay_ms(cache) == 2_000


async def test_clear(store: Store, cache: QueueCache) -> None:
    store.put(queue())
    await delay_ms(cache)
    store.queues[queue().key] = queue(version=2)  # without a notification
    cache.clear()
    assert await delay_ms(cache) == 2_000


async def test_bounded(store: Store, cache: QueueCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_cache, "VIEWS_MAX", 2)
    names = ["a", "b", "c"]
    for name in names:
        store.put(queue(name))
        await cache.find(queue(name).key)
    assert [cache.cached(queue(name).key) is not None for name in names] == [False, True, True]


async def test_engine_that_does_not_run(store: Store, cache: QueueCache) -> None:
    store.put(queue(engine="other"))
    with pytest.raises(StoreUnavailable):
        await cache.find(queue().key)
