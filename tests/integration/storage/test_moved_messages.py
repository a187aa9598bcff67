"""Messages that move between the embedded engine and the cluster's, both ways."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cns_backend.backend import Backend
from cns_backend.transfer.messages import copy_messages, digest
from cns_backend.transfer.side import Side
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cqs.engines.contract import Engine, Entry, PeekedMessage, QueueRef, SentEntry
from cqs.internal_queues import internal_key, internal_queue
from cqs.queues.model import Queue
from lab.harness.keyspace import quick_sessions
from tests.conformance.drivers import Driver

HIDE_MS = 30_000
MINUTE_MS = 60_000
WAYS = (("embedded", "cqs"), ("cqs", "embedded"))


class OneSide(NamedTuple):
    engine: str
    backend: Backend

    @property
    def queues(self) -> Engine:
        return self.backend.engines[self.engine]


@pytest.fixture(autouse=True)
def sessions_are_quick() -> Iterator[None]:
    with quick_sessions():
        yield


@asynccontextmanager
async def opened(name: str, directory: Path, clock: Clock) -> AsyncIterator[OneSide]:
    async with Driver(name, directory, clock).open() as engine:
        yield OneSide(name, cast("Backend", SimpleNamespace(engines={name: engine}, clock=clock)))


def queue_named(name: str, attributes: dict[str, str] | None = None) -> Queue:
    fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    return Queue(
        id=uuid.uuid4().hex, account="000000000001", region="eu-west-1", name=name, engine="", created_ms=0,
        modified_ms=0, attributes={**fifo, **(attributes or {})},
    )  # fmt: skip


def ref_of(queue: Queue) -> QueueRef:
    seconds = int(queue.attributes.get("MessageRetentionPeriod", DAY_MS * 4 // 1000))
    return QueueRef(queue.id, queue.fifo, seconds * 1000)


def entry(now_ms: int, n: int, group: str = "", dedup: str = "", *, delay_ms: int = 0, age_ms: int = 0) -> Entry:
    return Entry(str(uuid.uuid4()), b"body %d" % n, now_ms - age_ms, now_ms + delay_ms, group, dedup)


async def all_of(side: OneSide, q: QueueRef, now_ms: int) -> list[PeekedMessage]:
    found: list[PeekedMessage] = []
    cursor = ""
    while True:
        page = await side.queues.peek(q, cursor, 50, now_ms)
        found += page.messages
        if not page.cursor:
            return found
        cursor = page.cursor


async def move(source: OneSide, target: OneSide, queue: Queue) -> int:
    copied = await copy_messages(cast("Side", source), cast("Side", target), queue)
    assert await digest(cast("Side", target), queue, copied.cut_ms) == copied
    return copied.count


@pytest.mark.parametrize(("origin", "destination"), WAYS)
async def test_messages_in_each_state_move(tmp_path: Path, origin: str, destination: str) -> None:
    """Delayed ones stay delayed, those in flight become visible with their counts, and their tenants stay."""
    clock = Clock(test=True)
    queue = queue_named("q")
    q = ref_of(queue)
    async with opened(origin, tmp_path / "a", clock) as source:
        now_ms = clock.now_ms()
        await source.queues.send(q, [entry(now_ms, n, f"tenant {n % 3}", age_ms=9 - n) for n in range(6)], now_ms)
        await source.queues.send(q, [entry(now_ms, 6, delay_ms=600_000)], now_ms)
        first = await source.queues.receive(q, 2, now_ms + HIDE_MS, now_ms)
        clock.advance(HIDE_MS + 1000)
        again_ms = clock.now_ms()
        again = await source.queues.receive(q, 1, again_ms + HIDE_MS, again_ms)
        before = {one.id: one for one in await all_of(source, q, again_ms)}
    async with opened(origin, tmp_path / "a", clock) as source, opened(destination, tmp_path / "b", clock) as target:
        assert await move(source, target, queue) == 7
        after_ms = clock.now_ms()
        after = {one.id: one for one in await all_of(target, q, after_ms)}
    assert {(one.id, one.body, one.born_at_ms, one.group, one.deliveries) for one in before.values()} == {
        (one.id, one.body, one.born_at_ms, one.group, one.deliveries) for one in after.values()
    }
    assert sorted(one.deliveries for one in after.values())[-2:] in ([1, 1], [1, 2])
    assert len(first.messages) == 2
    assert {one.first_received_ms for one in before.values()} == {one.first_received_ms for one in after.values()}
    hidden = {one.id for one in after.values() if one.visible_at_ms > after_ms}
    assert hidden == {one.id for one in after.values() if one.body == b"body 6"}
    assert again.messages[0].id not in hidden


@pytest.mark.parametrize(("origin", "destination"), WAYS)
async def test_a_hidden_retry_of_a_job_queue_stays_hidden(tmp_path: Path, origin: str, destination: str) -> None:
    clock = Clock(test=True)
    queue = internal_queue(internal_key(f"jobs-{uuid.uuid4().hex[:8]}"), "")
    assert queue is not None
    q = ref_of(queue)
    async with opened(origin, tmp_path / "a", clock) as source, opened(destination, tmp_path / "b", clock) as target:
        now_ms = clock.now_ms()
        await source.queues.send(q, [entry(now_ms, 0)], now_ms)
        assert (await source.queues.receive(q, 1, now_ms + MINUTE_MS, now_ms)).messages
        await move(source, target, queue)
        (kept,) = await all_of(target, q, now_ms)
        assert (kept.visible_at_ms, kept.deliveries) == (now_ms + MINUTE_MS, 1)


@pytest.mark.parametrize(("origin", "destination"), WAYS)
async def test_a_fifo_queue_moves_with_its_order_numbers_and_memory(
    tmp_path: Path, origin: str, destination: str
) -> None:
    clock = Clock(test=True)
    queue = queue_named("q.fifo")
    q = ref_of(queue)
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(opened(origin, tmp_path / "a", clock))
        target = await stack.enter_async_context(opened(destination, tmp_path / "b", clock))
        now_ms = clock.now_ms()
        entries = [entry(now_ms, n, f"group {n % 2}", f"key {n}") for n in range(8)]
        sent = [one for one in await source.queues.send(q, entries, now_ms) if isinstance(one, SentEntry)]
        taken = await source.queues.receive(q, 1, now_ms + HIDE_MS, now_ms)  # the whole group waits for it
        gone = taken.messages[0]
        await source.queues.delete(q, [gone.handle], now_ms)
        blocked = await source.queues.receive(q, 1, now_ms + HIDE_MS, now_ms)
        await move(source, target, queue)
        now_ms = clock.now_ms()
        received: list[str] = []
        numbers: list[int] = []
        while messages := (await target.queues.receive(q, 10, now_ms + HIDE_MS, now_ms)).messages:
            for one in messages:
                assert one.deliveries == (2 if one.id == blocked.messages[0].id else 1)
            received += [one.id for one in messages]
            numbers += [one.sequence for one in messages]
            await target.queues.delete(q, [one.handle for one in messages], now_ms)
        for group in ("group 0", "group 1"):
            ids = [one.id for one in entries if one.group == group and one.id != gone.id]
            assert [one for one in received if one in ids] == ids
        if destination == "cqs":
            assert sorted(numbers) == [one.sequence for one in sent if one.id != gone.id]
        again = await target.queues.send(q, [replace(one, id=str(uuid.uuid4())) for one in entries], now_ms)
        assert [(one.id, one.duplicate) for one in again if isinstance(one, SentEntry)] == [
            (one.id, True) for one in entries
        ]
        (new,) = await target.queues.send(q, [entry(now_ms, 9, "group 0", "new")], now_ms)
        assert isinstance(new, SentEntry)
        assert new.sequence > max(*numbers, *[one.sequence for one in sent])
        clock.advance(5 * MINUTE_MS + 1000)
        (later,) = await target.queues.send(q, [replace(entries[0], id=str(uuid.uuid4()))], clock.now_ms())
        assert isinstance(later, SentEntry)
        assert not later.duplicate


async def test_numbers_go_on_rising_over_a_way_and_back(tmp_path: Path) -> None:
    """A store of many starts has numbers that a new store, with its first start, would give again."""
    clock = Clock(test=True)
    queue = queue_named("q.fifo")
    q = ref_of(queue)
    now_ms = clock.now_ms()
    for _ in range(300):
        async with opened("embedded", tmp_path / "old", clock):
            pass
    async with opened("embedded", tmp_path / "old", clock) as source, opened("cqs", tmp_path, clock) as cluster:
        (first,) = await source.queues.send(q, [entry(now_ms, 0, "g", "a")], now_ms)
        await move(source, cluster, queue)
        async with opened("embedded", tmp_path / "new", clock) as target:
            await move(cluster, target, queue)
            (second,) = await target.queues.send(q, [entry(now_ms, 1, "g", "b")], now_ms)
        async with opened("embedded", tmp_path / "new", clock) as target:
            (third,) = await target.queues.send(q, [entry(now_ms, 2, "g", "c")], now_ms)
        (message,) = (await cluster.queues.receive(q, 1, now_ms + HIDE_MS, now_ms)).messages
        assert await cluster.queues.delete(q, [message.handle], now_ms) == [0]
    assert isinstance(first, SentEntry)
    assert isinstance(second, SentEntry)
    assert isinstance(third, SentEntry)
    assert first.sequence < second.sequence < third.sequence
    assert message.sequence == first.sequence >= 1 << 48


@pytest.mark.parametrize("name", ["q", "q.fifo"])
@pytest.mark.parametrize(("origin", "destination"), WAYS)
async def test_a_copy_that_was_cut_off_is_made_again(
    tmp_path: Path, origin: str, destination: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(test=True)
    queue = queue_named(name)
    q = ref_of(queue)
    async with opened(origin, tmp_path / "a", clock) as source:
        now_ms = clock.now_ms()
        for start in range(0, 250, 50):
            entries = [entry(now_ms, n, f"g{n % 7}", f"k{n}" if q.fifo else "") for n in range(start, start + 50)]
            await source.queues.send(q, entries, now_ms)
        async with opened(destination, tmp_path / "b", clock) as target:
            with monkeypatch.context() as patched:
                patched.setattr("cns_backend.transfer.messages._Tally.add", stop_after(2))
                with pytest.raises(asyncio.CancelledError):
                    await move(source, target, queue)
        async with opened(destination, tmp_path / "b", clock) as target:
            assert await move(source, target, queue) == 250
        async with opened(destination, tmp_path / "b", clock) as target:
            found = await all_of(target, q, now_ms)
            assert len(found) == len({one.id for one in found}) == 250
            counts = await target.queues.counts(q, now_ms)
            assert counts.visible == 250


def stop_after(calls: int) -> Callable[[object, object], None]:
    left = iter(range(calls))

    def add(self: object, messages: object) -> None:
        if next(left, None) is None:
            raise asyncio.CancelledError

    return add


async def test_a_comparison_leaves_out_what_may_expire_meanwhile(tmp_path: Path) -> None:
    clock = Clock(test=True)
    queue = queue_named("q", {"MessageRetentionPeriod": "7200"})
    q = ref_of(queue)
    async with opened("embedded", tmp_path, clock) as source, opened("cqs", tmp_path, clock) as target:
        now_ms = clock.now_ms()
        ages = [0, 30, 90, 119, 121]
        await source.queues.send(q, [entry(now_ms, n, age_ms=n * MINUTE_MS) for n in ages], now_ms)
        copied = await copy_messages(cast("Side", source), cast("Side", target), queue)
        assert copied.count == 2
        received = (await target.queues.receive(q, 10, now_ms, now_ms)).messages  # removes the expired one
        assert sorted(one.body for one in received) == [b"body 0", b"body 119", b"body 30", b"body 90"]
        stored = await digest(cast("Side", target), queue, copied.cut_ms)
        assert stored.count == 2


async def test_a_message_that_is_missing_or_changed_is_found(tmp_path: Path) -> None:
    clock = Clock(test=True)
    queue = queue_named("q")
    q = ref_of(queue)
    async with opened("embedded", tmp_path, clock) as source, opened("cqs", tmp_path, clock) as target:
        now_ms = clock.now_ms()
        await source.queues.send(q, [entry(now_ms, n) for n in range(3)], now_ms)
        copied = await copy_messages(cast("Side", source), cast("Side", target), queue)
        (taken,) = (await target.queues.receive(q, 1, now_ms + HIDE_MS, now_ms)).messages
        await target.queues.delete(q, [taken.handle], now_ms)
        assert await digest(cast("Side", target), queue, copied.cut_ms) != copied
        await target.queues.send(q, [Entry(taken.id, b"other", taken.born_at_ms, now_ms)], now_ms)
        assert await digest(cast("Side", target), queue, copied.cut_ms) != copied


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), fifo=st.booleans(), back=st.booleans())
def test_random_contents_move(tmp_path_factory: pytest.TempPathFactory, seed: int, fifo: bool, back: bool) -> None:
    asyncio.run(_move_random_contents(tmp_path_factory.mktemp("stores"), random.Random(seed), fifo=fifo, back=back))


async def _move_random_contents(directory: Path, chance: random.Random, *, fifo: bool, back: bool) -> None:
    clock = Clock(test=True)
    queue = queue_named("q.fifo" if fifo else "q")
    q = ref_of(queue)
    origin, destination = WAYS[back]
    async with opened(origin, directory / "a", clock) as source, opened(destination, directory / "b", clock) as target:
        for n in range(chance.randint(0, 40)):
            now_ms = clock.now_ms()
            group = f"g{chance.randint(0, 3)}" if fifo or chance.random() < 0.5 else ""
            dedup = f"k{chance.randint(0, 30)}" if fifo else ""
            delay_ms = chance.choice([0, 0, 0, 60_000])
            await source.queues.send(q, [entry(now_ms, n, group, dedup, delay_ms=delay_ms)], now_ms)
            if chance.random() < 0.4:
                for one in (await source.queues.receive(q, 3, now_ms + HIDE_MS, now_ms)).messages:
                    if chance.random() < 0.4:
                        await source.queues.delete(q, [one.handle], now_ms)
            clock.advance(chance.choice([1, 1000, 20_000]))
        now_ms = clock.now_ms()
        before = await all_of(source, q, now_ms)
        await move(source, target, queue)
        now_ms = clock.now_ms()
        after = await all_of(target, q, now_ms)
        assert sorted(map(_kept, before)) == sorted(map(_kept, after))
        if fifo:
            for group in {one.group for one in before}:
                assert _order(before, group) == _order(after, group)
        due = {one.id: max(one.visible_at_ms, now_ms) if not one.deliveries else now_ms for one in before}
        assert {one.id: max(one.visible_at_ms, now_ms) for one in after} == due


def _kept(one: PeekedMessage) -> tuple[object, ...]:
    return (one.id, one.body, one.born_at_ms, one.deliveries, one.first_received_ms, one.group)


def _order(messages: list[PeekedMessage], group: str) -> list[str]:
    return [one.id for one in sorted(messages, key=lambda one: one.sequence) if one.group == group]
