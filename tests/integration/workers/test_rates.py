"""Throttles and mail rates of several workers hold together, over the test clock, with Redis and without."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from cns_backend.stores.contract import ProcessReport, RateStore, ServiceState
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from cns_backend.stores.redis.rates import RedisRateStore
from cns_common.clock import Clock
from cns_common.worker_roles import WorkerRole
from lab.harness.own_redis import OwnRedis
from lab.harness.parts import need
from tests.machine_clocks import MachineClocks

WORKERS = 2
PER_SECOND = 4
SECONDS = 20
LIMIT = 10


class Reports:
    """Two workers that deliver, one that does not, and an API process. See `ServiceReports`."""

    async def state(self) -> ServiceState:
        reports = [
            ProcessReport("worker-1", "worker", (), ()),
            ProcessReport("worker-2", "worker", (), (), roles=(WorkerRole.CONSUMER,)),
            ProcessReport("worker-3", "worker", (), (), roles=(WorkerRole.PRODUCER,)),
            ProcessReport("api-1", "api", (), ()),
        ]
        return ServiceState("", tuple(reports), ())


class Workers:
    """The rate stores of two workers, each with a clock of its own."""

    def __init__(self, stores: list[RateStore], clocks: list[Clock]) -> None:
        self.stores = stores
        self._clocks = clocks

    def advance(self, by_ms: int) -> None:
        for clock in self._clocks:
            clock.advance(by_ms)

    async def taken(self, bucket: str, seconds: int) -> int:
        """The tokens that both take while the test clock advances so many seconds, each asking for all it can get."""
        taken = 0
        for _ in range(seconds):
            for store in self.stores:
                taken += (await store.take_tokens(bucket, PER_SECOND, 2 * PER_SECOND)).tokens
            self.advance(1_000)
        return taken


@asynccontextmanager
async def through_redis(url: str) -> AsyncIterator[Workers]:
    async with AsyncExitStack() as stack:
        machine = MachineClocks(time.time_ns())  # no time passes but by `advance`
        clocks = [machine.clock(test=True) for _ in range(WORKERS)]
        leases, prefix = EmbeddedLeaseStore(), f"test:{uuid.uuid4().hex}:"
        stores = [RedisRateStore(url, prefix, leases, Reports(), clock) for clock in clocks]
        for store in stores:
            stack.push_async_callback(store.close)
        yield Workers([*stores], clocks)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> OwnRedis:
    need("redis")
    return OwnRedis(tmp_path_factory.mktemp("redis"))


@pytest.fixture(params=["embedded", "redis", "without redis"])
async def workers(request: pytest.FixtureRequest, redis: OwnRedis) -> AsyncIterator[Workers]:
    if request.param == "embedded":
        clock = MachineClocks(time.time_ns()).clock(test=True)
        store = EmbeddedRateStore(clock)  # in the store host, which both workers ask
        yield Workers([store] * WORKERS, [clock])
        return
    if request.param == "redis":
        redis.start()
    async with through_redis(redis.url if request.param == "redis" else "") as workers:
        yield workers
    redis.kill()


async def test_the_throttle_of_two_workers_is_the_subscriptions(workers: Workers) -> None:
    taken = await workers.taken("subscription", SECONDS)
    assert (SECONDS - 1) * PER_SECOND - WORKERS <= taken <= SECONDS * PER_SECOND


async def test_buckets_are_apart_and_follow_a_new_rate(workers: Workers) -> None:
    await workers.taken("one", 3)
    assert await workers.taken("other", 2)
    workers.advance(2_000)
    granted = [(await store.take_tokens("one", 100, 100)).tokens for store in workers.stores]
    assert sum(granted) <= 100 + 10
    workers.advance(1_000)
    later = [(await store.take_tokens("one", 100, 100)).tokens for store in workers.stores]
    assert 90 <= sum(later) <= 110


async def test_the_eleventh_mail_of_a_second_is_refused_whoever_sends_it(workers: Workers) -> None:
    second = Clock().now_ms() // 1_000

    async def admitted(number: int) -> bool:
        return await workers.stores[number % WORKERS].admit_mail("subscription", second, str(number), LIMIT)

    first = [number for number in range(LIMIT + 5) if await admitted(number)]
    assert first == [*range(LIMIT)]
    again = [await workers.stores[0].admit_mail("subscription", second, str(number), LIMIT) for number in first]
    assert all(again), "a retry is no further mail"
    assert await workers.stores[1].admit_mail("another", second, "11", LIMIT)
    assert await workers.stores[1].admit_mail("subscription", second + 1, "11", LIMIT)


async def test_mails_of_a_second_that_is_long_over_are_not_counted(redis: OwnRedis) -> None:
    second = Clock().now_ms() // 1_000
    redis.start()
    try:
        async with through_redis(redis.url) as sharing, through_redis("") as alone:
            for store in (EmbeddedRateStore(Clock()), sharing.stores[0], alone.stores[0]):
                assert await store.admit_mail("subscription", second, "newest", LIMIT)
                late = [await store.admit_mail("subscription", second - 100, str(n), LIMIT) for n in range(2 * LIMIT)]
                assert all(late)
    finally:
        redis.kill()


async def test_rates_hold_while_redis_is_away_and_when_it_is_back(
    redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cns_backend.stores.redis.rates.RETRY_S", 0.0)
    redis.start()
    async with through_redis(redis.url) as workers:
        taken = await workers.taken("subscription", SECONDS)
        redis.kill()
        taken += await workers.taken("subscription", SECONDS)
        redis.start()
        taken += await workers.taken("subscription", SECONDS)
    redis.kill()
    seconds, changes = 3 * SECONDS, 2
    assert (seconds - 3) * PER_SECOND <= taken <= (seconds + changes) * PER_SECOND


async def test_a_redis_that_hangs_delays_a_worker_once(redis: OwnRedis) -> None:
    redis.start()
    async with through_redis(redis.url) as workers:
        (store, _) = workers.stores
        assert (await store.take_tokens("subscription", PER_SECOND, 1)).tokens == 1
        redis.pause()
        try:
            assert not (await store.take_tokens("subscription", PER_SECOND, 1)).tokens, "its share begins empty"
            workers.advance(1_000)
            assert (await store.take_tokens("subscription", PER_SECOND, 10)).tokens == PER_SECOND // WORKERS
        finally:
            redis.resume()
            redis.kill()
