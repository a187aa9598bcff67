"""Redis' index of a fair queue's tenants is right after any operations, and a lease takes what a model takes."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from cns_common.clock import Clock
from cqs.engines.cluster.cache_contract import CachedMessage, LeaseRequest, MessageLease
from cqs.engines.cluster.ids import MessageLocation, QueueShard, bucket_name, parse_location
from cqs.engines.cluster.redis import cache as redis_cache
from cqs.engines.cluster.redis import script_calls
from cqs.engines.cluster.redis.cache import RedisCache
from cqs.engines.cluster.redis.scripts import FAIR_PARTS, PARTS
from cqs.engines.cluster.unacked import UnackedDeliveries
from cqs.engines.contract import SPENT_HIDE_MS, Outcome
from lab.harness.own_redis import OwnRedis
from tests.integration.cqs.engines.cache.test_cache_trust import another_redis
from tests.integration.cqs.engines.fair.fair_model import ALL, FairModel, Use

QUEUE = QueueShard("q")
TENANTS = ["", "", "loud", "loud", "loud", "loud", "louder", "louder", "a", "b", "c", "a b"]
STEPS = 250
SWEPT, INDEXED = 5, 20
BUSY_MS_TOLERATED = 1.0
"""The use of a tenant is forgotten when less is left."""


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    """One whose sorted sets are scanned in steps, however few members they have."""
    with another_redis(tmp_path, "--zset-max-listpack-entries", "0") as running:
        yield running


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch, late_calls_are_tolerated: None) -> None:
    """Scripts that sweep and index a few messages at once."""
    for script in vars(script_calls).values():
        if isinstance(script, script_calls.Script):
            text = script.text.replace("INDEXED_MAX = 1000, 500", f"INDEXED_MAX = {SWEPT}, {INDEXED}")
            assert text.count(f"= {SWEPT}, {INDEXED}") == 1
            monkeypatch.setattr(script, "text", text)
            monkeypatch.setattr(script, "sha", hashlib.sha1(text.encode()).hexdigest())


@pytest.fixture
async def cache(own_redis: OwnRedis) -> AsyncIterator[RedisCache]:
    opened = RedisCache(own_redis.url, Clock(), UnackedDeliveries())
    opened.trust(1, await opened.ping())
    await opened.register(1, 0)
    await opened.begin_epoch(QUEUE, 0, "filler")
    await opened.end_fill(QUEUE, "filler")
    yield opened
    await opened.close()


Operation = Callable[[], Awaitable[None]]


class Machine:
    """Random operations on a queue in Redis, and on its model. The first ones know no tenants."""

    def __init__(self, cache: RedisCache, own: OwnRedis, seed: int) -> None:
        self._cache = cache
        self._redis: Any = redis.Redis(port=own.port, decode_responses=True)  # its types say that it returns bytes
        self._random = random.Random(seed)
        self._now_ms = 1_000_000 + Clock().now_ms()
        self._made = 0
        self._generation = 0
        self._leases: list[tuple[MessageLease, ...]] = []
        self._tenants = [""]
        self.model = FairModel()
        self.noisy_leases = 0

    async def run(self, steps: int) -> None:
        often: Sequence[Operation] = [self.add] * 4 + [self.lease] * 5 + [self.delete] * 3
        seldom: Sequence[Operation] = [
            self.undo_lease,
            self.change,
            self.change,
            self.keep_hidden,
            self.forget,
            self.add_missing,
        ]
        for step in range(steps):
            if step == steps // 8:
                self._tenants = TENANTS
            await self._random.choice([*often, *seldom, self.wait, self.wait])()
            if self._random.random() < 2 / steps:
                await self.begin_anew()
            self.model.end_call()
            self.check()

    # -- operations ---------------------------------------------------------------------------------------------------

    async def wait(self) -> None:
        self._now_ms += self._random.choice([1, 10, 100, 1_000, 10_000, 100_000])

    def _new(self) -> CachedMessage:
        self._made += 1
        location = MessageLocation(bucket_name(self._generation, 1_000_000, "deadbeef", self._made % 3), self._made)
        due_ms = self._now_ms + self._random.choice([0, 0, 0, 0, -50, 2_000, 20_000])
        deliveries = self._random.choice([0, 0, 0, 0, 2])
        return CachedMessage(location, due_ms, deliveries, self._now_ms, self._random.choice(self._tenants))

    def _added(self, items: list[CachedMessage]) -> None:
        if any(item.tenant for item in items):
            self.model.become_fair(self._now_ms)
        self._sweep()
        for item in items:
            member = item.location.member
            if member not in self.model.messages:
                self.model.put(member, item.visible_at_ms, item.deliveries > 0, self._now_ms, item.tenant)
            elif item.tenant:
                self.model.name_tenant(member, item.tenant, self._now_ms)

    async def add(self) -> None:
        items = [self._new() for _ in range(self._random.choice([1, 1, 5, 10, 30]))]
        assert await self._cache.add(QUEUE, items, self._now_ms) == self._generation
        self._added(items)

    async def add_missing(self) -> None:
        """Some are there already; some of these without their tenants."""
        items = [self._new() for _ in range(3)]
        for member in self._some(4):
            known = self.model.messages[member]
            items.append(CachedMessage(parse_location(member), known.due_ms, tenant=known.tenant))
        left = sum(item.location.member not in self.model.messages for item in items)
        assert await self._cache.add_missing(QUEUE, items, self._now_ms) == left
        self._added(items)

    async def lease(self) -> None:
        want, due_ms = self._random.randint(1, 10), self._now_ms + self._random.choice([0, 500, 5_000, 60_000, 600_000])
        limit = self._random.choice([0, 0, 3])
        taken = await self._cache.lease(QUEUE, LeaseRequest(self._now_ms, want, due_ms, limit))
        assert taken is not None
        members = [lease.key.location.member for lease in taken.leases]
        self._sweep()
        self.model.end_call()
        assert not self.model.fair or self.model.swept_ms == self._now_ms or not self.model.all_swept
        if self._field("index") is None:
            self.model.check_order(members, want, self._now_ms)
            self.noisy_leases += bool(self.model.maybe_noisy)
        else:  # some messages are not in the index yet
            self.model.noisy(self._now_ms)
            visible = self.model.visible(self._now_ms)
            assert set(members) <= set(visible)
            assert len(set(members)) == len(members) == min(want, len(visible))
        self.model.lease(taken.leases, due_ms, self._now_ms + SPENT_HIDE_MS, self._now_ms)
        self._leases.append(taken.leases)

    async def undo_lease(self) -> None:
        if self._leases and self._leases[-1]:
            leases = self._leases.pop()
            await self._cache.undo_lease(QUEUE, leases, self._now_ms)
            self._sweep()
            scores = self._scores("z")
            for lease in leases:
                member = lease.key.location.member
                if scores.get(member) == self._now_ms:
                    self.model.put(member, self._now_ms, member in self._scores("f"), self._now_ms)

    async def delete(self) -> None:
        leases = [lease for taken in self._leases[-4:] for lease in taken]
        keys = [lease.key for lease in self._random.sample(leases, min(len(leases), self._random.randint(1, 10)))]
        if not keys:
            return
        outcomes = await self._cache.begin_delete(QUEUE, keys, self._now_ms)
        self._sweep()
        gone = [key.location for key, outcome in zip(keys, outcomes, strict=True) if outcome is Outcome.DONE]
        for one in gone:
            self.model.leaving[one.member] = self.model.messages[one.member].tenant
            self.model.remove(one.member, self._now_ms)
        fate = self._random.choice(["end", "end", "undo", "die"])
        if fate == "end":
            self._cache.finish_delete(QUEUE, gone)
            await self._cache.flush_finished_deletes()
            for one in gone:
                self.model.leaving.pop(one.member, None)
        elif fate == "undo" and gone:
            self.model.end_call()
            items = [CachedMessage(one, self._now_ms) for one in gone]
            await self._cache.undo_delete(QUEUE, items, self._now_ms)
            self._added(items)

    async def change(self) -> None:
        leases = [lease for taken in self._leases[-4:] for lease in taken]
        if leases:
            key = self._random.choice(leases).key
            due_ms = self._now_ms + self._random.choice([0, 0, 3_000, 300_000])
            if await self._cache.set_visible_at(QUEUE, key, due_ms, self._now_ms) is Outcome.DONE:
                self._sweep()
                self.model.put(key.location.member, due_ms, True, self._now_ms)

    async def keep_hidden(self) -> None:
        """Hide messages that are there and others that are not. The call has a clock of its own, which counts no
        processing time."""
        items = [self._new() for _ in range(2)]
        items += [CachedMessage(parse_location(member), 0) for member in self._some(3)]
        items = [item._replace(visible_at_ms=self._now_ms + 30_000) for item in items]
        before_ms, self._cache._clock = self._cache._clock, _StoppedClock(self._now_ms)
        await self._cache.keep_hidden(QUEUE, items)
        self._cache._clock = before_ms
        if any(item.tenant for item in items):
            self.model.become_fair(self._now_ms)
        self._sweep()
        for item in items:
            known = self.model.messages.get(item.location.member)
            if known is None or known.due_ms < item.visible_at_ms:
                self.model.put(item.location.member, item.visible_at_ms, True, self._now_ms, item.tenant)

    async def forget(self) -> None:
        members = self._some(3)
        await self._cache.forget(QUEUE, [parse_location(member) for member in members])
        for member in members:
            self.model.remove(member, 0)

    async def begin_anew(self) -> None:
        """A purge, and a fill of the new generation."""
        self._generation += 1
        self._leases = []
        await self._cache.reset(QUEUE, self._generation)
        self.model = FairModel()
        assert await self._cache.begin_epoch(QUEUE, self._generation, "filler") == self._generation
        before, self._cache._clock = self._cache._clock, _StoppedClock(self._now_ms)
        for _ in range(2):
            items = [self._new() for _ in range(20)]
            assert await self._cache.fill_page(QUEUE, "filler", items)
            self._added(items)
            self.model.end_call()
        self._cache._clock = before
        await self._cache.end_fill(QUEUE, "filler")

    def _sweep(self) -> None:
        """Let the model count the ended leases that a call counted."""
        swept_ms = int(self._field("fair") or 0)
        if swept_ms > self.model.swept_ms:
            ended = self.model.sweep(swept_ms)
            self.model.all_swept = ended < SWEPT
            assert swept_ms == self._now_ms or not self.model.all_swept

    def _some(self, n: int) -> list[str]:
        return self._random.sample(sorted(self.model.messages), min(n, len(self.model.messages)))

    # -- what is in Redis ---------------------------------------------------------------------------------------------

    def _key(self, part: str) -> str:
        return f"{redis_cache.PREFIX}:{{{QUEUE.queue_id}}}:{part}"

    def _field(self, name: str) -> str | None:
        value: str | None = self._redis.hget(self._key("e"), name)
        return value

    def _scores(self, part: str) -> dict[str, float]:
        return dict(self._redis.zrange(self._key(part), 0, -1, withscores=True))

    def check(self) -> None:
        model, places = self.model, self._scores("z")
        places.pop("")
        assert places == {member: one.due_ms for member, one in model.messages.items()}
        assert self._scores("f").keys() == {member for member, one in model.messages.items() if one.delivered}
        assert (self._field("fair") is not None) == model.fair
        if not model.fair:
            assert not self._redis.exists(*map(self._key, FAIR_PARTS))
            return
        self._check_index()
        self._check_uses()

    def _check_index(self) -> None:
        model, lines = self.model, set(self._scores("y"))
        expected = {f"{one.tenant}\0{one.due_ms:016}{member}" for member, one in model.messages.items()}
        assert lines <= expected
        assert lines == expected or self._field("index") is not None
        heads: dict[str, int] = {}
        for line in lines:
            tenant, _, rest = line.partition("\0")
            heads[tenant] = min(heads.get(tenant, 10**16), int(rest[:16]))
        assert self._scores("h") == heads
        tenants = {member: one.tenant for member, one in model.messages.items() if one.tenant}
        kept = self._redis.hgetall(self._key("t"))
        assert kept == tenants | {member: one for member, one in model.leaving.items() if one}

    def _check_uses(self) -> None:
        model, idle = self.model, self._scores("i")
        uses = {name: _use_of(text) for name, text in self._redis.hgetall(self._key("u")).items()}
        in_flight = {name: use.n for name, use in uses.items()}
        assert in_flight == {name: model.uses[name].n for name in in_flight}
        forgotten = model.uses.keys() - in_flight.keys()
        assert not any(model.uses[name].n for name in forgotten), "only the use of idle tenants is forgotten"
        assert {name for name, n in in_flight.items() if not n and name != ALL} <= idle.keys()
        for name, use in uses.items():
            expected = replace(model.uses[name])
            for one, other in ((use, expected), (expected, use)):
                one.advance(other.at_ms)
            assert use.busy_ms == pytest.approx(expected.busy_ms, abs=BUSY_MS_TOLERATED)
        assert set(json.loads(self._field("noisy") or "[]")) == model.maybe_noisy


def _use_of(text: str) -> Use:
    n, at_ms, busy_ms = text.split(":")
    return Use(int(n), int(at_ms), float(busy_ms))


class _StoppedClock(Clock):
    def __init__(self, now_ms: int) -> None:
        super().__init__()
        self._stopped_ms = now_ms

    def now_ms(self) -> int:
        return self._stopped_ms


@pytest.mark.parametrize(
    "seed", [*range(2), *[pytest.param(seed, marks=pytest.mark.extended) for seed in range(2, 40)]]
)
async def test_redis_knows_what_the_model_knows(cache: RedisCache, own_redis: OwnRedis, seed: int) -> None:
    machine = Machine(cache, own_redis, seed)
    await machine.run(STEPS)
    assert machine.noisy_leases


async def test_a_queue_without_tenants_has_no_more_keys(cache: RedisCache, own_redis: OwnRedis) -> None:
    now_ms = Clock().now_ms()
    bucket = bucket_name(0, now_ms, "deadbeef", 0)
    items = [CachedMessage(MessageLocation(bucket, seq), now_ms) for seq in range(20)]
    await cache.add(QUEUE, items, now_ms)
    taken = await cache.lease(QUEUE, LeaseRequest(now_ms, 10, now_ms + 30_000, 0))
    assert taken is not None
    await cache.begin_delete(QUEUE, [lease.key for lease in taken.leases], now_ms)
    client: Any = redis.Redis(port=own_redis.port, decode_responses=True)
    assert {key[-1] for key in client.keys(f"{redis_cache.PREFIX}:{{{QUEUE.queue_id}}}:*")} <= set(PARTS)
