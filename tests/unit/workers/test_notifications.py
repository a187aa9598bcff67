"""Notifications that deliveries read: once for many jobs, in bounded memory, and never from a read that failed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from cns.notification import Notification
from cns_common.errors import StoreUnavailable
from cns_workers.consumers.notification_cache import CACHE_BYTES_MAX, NotificationCache

LARGE_BYTES = 256 * 1024
JOBS = 100


class Store:
    """Answers when the test allows it, and counts reads."""

    def __init__(self) -> None:
        self.stored: dict[str, Notification] = {}
        self.reads: Counter[str] = Counter()
        self.let = asyncio.Event()
        self.let.set()
        self.away = False

    async def put(self, notification: Notification, references: int, expires_ms: int) -> None:
        self.stored[notification.id] = notification

    async def get(self, notification_id: str) -> Notification | None:
        self.reads[notification_id] += 1
        await self.let.wait()
        if self.away:
            raise StoreUnavailable("away")
        return self.stored.get(notification_id)

    async def add_references(self, notification_id: str, change: int) -> None:
        raise NotImplementedError

    async def sweep(self, now_ms: int, budget: int) -> int:
        return 0


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def notifications(store: Store) -> NotificationCache:
    return NotificationCache(store)


async def large(store: Store, name: str) -> Notification:
    text = name.ljust(LARGE_BYTES // 2, ".")
    given = Notification(
        id=name, topic_arn="t", timestamp_ms=1, texts={"default": text}, attributes={"a": ("String", text)}
    )
    await store.put(given, 1, 0)
    return given


async def test_jobs_of_one_publish_read_it_once(store: Store, notifications: NotificationCache) -> None:
    given = await large(store, "n")
    store.let.clear()
    gets = [asyncio.ensure_future(notifications.get("n")) for _ in range(JOBS)]
    await asyncio.sleep(0)
    store.let.set()
    assert await asyncio.gather(*gets) == [given] * JOBS  # at the same time
    assert await notifications.get("n") is given  # and later
    assert store.reads == {"n": 1}


async def test_what_is_kept_has_a_bound_and_what_was_not_read_for_longest_goes_first(
    store: Store, notifications: NotificationCache
) -> None:
    names = [str(n) for n in range(CACHE_BYTES_MAX // LARGE_BYTES)]  # one more than there is room for
    for name in names:
        await large(store, name)
        await notifications.get(name)
        await notifications.get("0")
    assert store.reads == dict.fromkeys(names, 1)
    await notifications.get("1")
    assert (store.reads["0"], store.reads["1"], store.reads[names[-1]]) == (1, 2, 1)


async def test_one_larger_than_all_that_is_kept_is_read_each_time(store: Store) -> None:
    notifications = NotificationCache(store, LARGE_BYTES // 2)
    given = await large(store, "n")
    assert [await notifications.get("n"), await notifications.get("n")] == [given, given]
    assert store.reads == {"n": 2}


async def test_one_that_is_missing_is_asked_for_again(store: Store, notifications: NotificationCache) -> None:
    assert await notifications.get("n") is None
    given = await large(store, "n")
    assert await notifications.get("n") == given


async def test_a_read_that_fails_fails_for_all_who_wait_and_is_not_remembered(
    store: Store, notifications: NotificationCache
) -> None:
    given = await large(store, "n")
    store.away = True
    failures = await asyncio.gather(*[notifications.get("n") for _ in range(2)], return_exceptions=True)
    assert [type(failure) for failure in failures] == [StoreUnavailable] * 2
    store.away = False
    assert await notifications.get("n") == given
    assert store.reads == {"n": 2}


async def test_a_job_that_is_given_up_does_not_take_the_read_from_others(
    store: Store, notifications: NotificationCache
) -> None:
    given = await large(store, "n")
    store.let.clear()
    first, second = [asyncio.ensure_future(notifications.get("n")) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    store.let.set()
    assert await second == given
    assert store.reads == {"n": 1}
