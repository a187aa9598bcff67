"""What the contract cannot say of the embedded engine: its work at any depth, its limits, and full disks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import apsw
import pytest

from cns_common.clock import Clock
from cns_common.errors import StoreFull
from cns_common.sqlite.database import Database
from cqs.engines.contract import ATTEMPT_WINDOW_MS, Message, Settlement
from cqs.engines.embedded import EmbeddedEngine, maintenance, queue_state, receive, transaction
from tests.conformance.support import DONE, Desk, bodies, numbered
from tests.integration.storage.faulty_disk import FaultyDisk

SHALLOW, DEEP = 100, 10_000
MORE_WORK_MAX = 1.2


@asynccontextmanager
async def opened(directory: Path, disk: FaultyDisk | None = None) -> AsyncIterator[tuple[Database, EmbeddedEngine]]:
    clock = Clock()
    database = Database(directory, clock, disk.vfs if disk else None)
    engine = EmbeddedEngine(database, clock)
    database.start(asyncio.get_running_loop())
    try:
        yield database, engine
    finally:
        await database.close()


# -- work at any depth ------------------------------------------------------------------------------------------------


class Work:
    """How many steps SQLite's machine made."""

    def __init__(self, database: Database) -> None:
        self.steps = 0
        for connection in (database.connection, database.reader):
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)

    def _count(self, event: dict[str, dict[str, int]]) -> None:
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    async def of(self, call: Callable[[], Awaitable[object]]) -> int:
        before = self.steps
        await call()
        return self.steps - before


async def _filled(engine: EmbeddedEngine, clock: Clock, kind: str, n: int) -> Desk:
    desk = Desk(engine, clock, fifo=kind != "standard")
    for start in range(0, n, 1_000):
        width = min(1_000, n - start)
        groups = {"standard": "", "one group": "g"}
        await desk.put([desk.entry(b"x", group=groups.get(kind, f"g {start + i}")) for i in range(width)])
    if kind == "blocked groups":
        await desk.drain(3_600_000)
    return desk


@pytest.mark.parametrize("kind", ["standard", "one group", "many groups", "blocked groups"])
async def test_no_call_costs_more_in_a_deep_queue(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path) as (database, engine):
        work = Work(database)
        costs: list[dict[str, int]] = []
        for depth in (SHALLOW, DEEP):
            desk = await _filled(engine, Clock(), kind, depth)
            await desk.send(b"x", group="free")
            held = (await desk.take(2))[0]
            costs.append(
                {
                    "send": await work.of(partial(desk.send, b"x", group="h")),
                    "receive": await work.of(desk.take),
                    "change": await work.of(partial(desk.hide, held, 60_000)),
                    "delete": await work.of(partial(desk.delete, held)),
                    "peek": await work.of(partial(engine.peek, desk.q, "", 10, desk.now_ms)),
                    "counts": await work.of(desk.counts),
                    "purge": await work.of(desk.purge),
                    "drop": await work.of(desk.drop),
                    "maintain": await work.of(partial(engine.maintain, 10, desk.now_ms)),
                }
            )
        shallow, deep = costs
        assert {name for name in deep if deep[name] > shallow[name] * MORE_WORK_MAX + 20} == set()


async def test_a_fair_queue_looks_at_a_bounded_number_of_tenants(tmp_path: Path) -> None:
    async with opened(tmp_path) as (database, engine):
        work = Work(database)
        steps: list[int] = []
        for backlog in (1_000, 10_000):
            desk = Desk(engine, Clock())
            await desk.put([desk.entry(b"x", group="loud") for _ in range(backlog)])
            await desk.put([desk.entry(b"x", group=f"quiet {i}") for i in range(300)])
            for _ in range(6):
                await desk.take(10, 3_600_000)
            steps.append(await work.of(desk.take))
        assert steps[1] <= steps[0] * MORE_WORK_MAX + 20


@pytest.mark.parametrize("visible", [[], ["quiet 1"], ["loud", "quiet 1", "loud"]], ids=["none", "one", "three"])
async def test_tenants_with_nothing_visible_cost_a_fair_queue_nothing(tmp_path: Path, visible: list[str]) -> None:
    async with opened(tmp_path) as (database, engine):
        work = Work(database)
        steps: list[int] = []
        for hidden in (2, 200):
            desk = Desk(engine, Clock())
            await desk.put([desk.entry(b"x", group="loud") for _ in range(40)])
            await desk.drain(3_600_000)
            await desk.put([desk.entry(b"x", group=f"quiet {i}", delay_ms=600_000) for i in range(hidden)])
            for tenant in visible:
                await desk.send(b"x", group=tenant)
                desk.later(1)
            received: list[Message] = []

            async def receive(desk: Desk = desk, received: list[Message] = received) -> None:
                received += await desk.take(3)

            steps.append(await work.of(receive))
            assert [message.group for message in received] == sorted(visible, reverse=True)
        assert steps[1] <= steps[0] * MORE_WORK_MAX + 20


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fifo_queue", [False, True])
async def test_so_many_and_no_more_are_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fifo_queue: bool
) -> None:
    monkeypatch.setattr(receive, "IN_FLIGHT_MAX", 25)
    async with opened(tmp_path) as (_, engine):
        desk = Desk(engine, Clock(), fifo=fifo_queue)
        await desk.put([desk.entry(b"x", group=f"{i}") for i in range(40)])
        held = await desk.drain()
        assert len(held) == 25
        assert (await desk.receive()).limit_reached
        await desk.delete(*held[:3])
        received = await desk.receive()
        assert (len(received.messages), received.limit_reached) == (3, False)
        assert (await desk.receive()).limit_reached


async def test_an_empty_queue_near_its_limit_is_just_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "IN_FLIGHT_MAX", 25)
    async with opened(tmp_path) as (_, engine):
        desk = Desk(engine, Clock())
        await desk.send(*numbered(20))
        assert len(await desk.drain()) == 20
        received = await desk.receive()
        assert (received.messages, received.limit_reached) == ((), False)


async def test_more_queues_than_are_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "QUEUES_IN_MEMORY_MAX", 3)
    async with opened(tmp_path) as (_, engine):
        desks = [Desk(engine, Clock()) for _ in range(20)]
        for _ in range(3):
            await asyncio.gather(*[desk.send(b"one", b"two") for desk in desks])
            held = await asyncio.gather(*[desk.take(1) for desk in desks])
            await asyncio.gather(*[desk.delete(*of) for desk, of in zip(desks, held, strict=True)])
        assert [await desk.counts() for desk in desks] == [(3, 0, 0)] * 20
        taken = [message for desk in desks for message in await desk.take(2)]
        qs = [desk.q for desk in desks for _ in range(2)]
        deletes = [(q, message.handle) for q, message in zip(qs, taken, strict=True)]
        deletes = deletes[::2] + deletes[1::2]  # a queue comes again after all the others
        settled = await engine.settle(Settlement(deletes=tuple(deletes)), desks[0].now_ms)
        assert set(settled.deletes) == {DONE}
        assert [await desk.counts() for desk in desks] == [(1, 0, 0)] * 20


# -- clearing up ------------------------------------------------------------------------------------------------------


async def test_clearing_up_leaves_no_row_behind(tmp_path: Path) -> None:
    async with opened(tmp_path) as (database, engine):
        desk = Desk(engine, Clock(), fifo=True, retention_ms=60_000)
        for i in range(30):
            await desk.send(*numbered(10), group=f"{i}")
            await desk.send(b"x", group=f"{i}", dedup=f"{i}")
        await desk.take(5, attempt_id="a")
        await desk.purge()
        await desk.send(*numbered(40), group="g")
        desk.later(2 * ATTEMPT_WINDOW_MS)
        while await engine.maintain(50, desk.now_ms) == 50:
            pass
        left = {
            table: database.reader.execute(f"SELECT count(*) FROM {table}").get
            for table in ("slots", "bodies", "dedup", "attempts")
        }
        assert left == dict.fromkeys(left, 0)
        assert database.reader.execute("SELECT count(*) FROM lines").get == 1


async def test_no_step_of_clearing_up_is_long(tmp_path: Path) -> None:
    async with opened(tmp_path) as (database, engine):
        desk = Desk(engine, Clock())
        await _filled(engine, Clock(), "standard", 100)
        await desk.put([desk.entry(b"x") for _ in range(3 * maintenance.STEP_ROWS_MAX)])
        await desk.purge()
        before = database.commits
        assert await engine.maintain(10 * maintenance.STEP_ROWS_MAX, desk.now_ms) >= 3 * maintenance.STEP_ROWS_MAX
        assert database.commits - before >= 3


async def test_an_empty_queue_is_known_without_a_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path) as (database, engine):
        desk = Desk(engine, Clock())
        for body in numbered(3):
            assert not await desk.take()
            before = database.commits
            assert not await desk.take()
            assert database.commits == before
            await desk.send(body)
            (message,) = await desk.take()
            assert not await desk.take()
            assert await desk.delete(message) == [DONE]
        await desk.drop()
        assert (await desk.receive()).dropped


# -- full disks -------------------------------------------------------------------------------------------------------


async def test_on_a_full_disk_nothing_is_taken_and_nothing_lost(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with opened(tmp_path, disk) as (_, engine):
        desk = Desk(engine, Clock())
        await desk.send(*numbered(10))
        held = await desk.take(3)
        counts = await desk.counts()
        disk.full = True
        for call in (desk.send(b"refused"), desk.delete(held[0]), desk.purge(), desk.drop()):
            with pytest.raises(StoreFull):
                await call
        assert disk.refused
        disk.full = False
        assert await desk.counts() == counts == (7, 3, 0)
        assert await desk.delete(held[0]) == [DONE]
        (sent,) = await desk.send(b"taken")
        assert sent.sequence > held[-1].sequence
        assert len(await desk.drain()) == 8
        assert len(await desk.peek_all()) == 10


async def test_those_who_wait_are_not_woken_for_what_was_not_stored(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with opened(tmp_path, disk) as (_, engine):
        desk = Desk(engine, Clock())
        wakeups = await desk.wait()
        disk.full = True
        with pytest.raises(StoreFull):
            await desk.send(b"refused")
        assert not await wakeups.wait(0)
        disk.full = False
        await desk.send(b"taken")
        assert await wakeups.wait(1)
        assert bodies(await desk.take()) == [b"taken"]
        wakeups.close()


def test_a_moment_is_counted_by_tenths_of_a_second() -> None:
    """What was in flight and is deleted leaves nothing behind when its tenth of a second is over."""
    hidden = queue_state.HiddenHistogram()
    hidden.become_fair()
    hidden.add(1_000, 1_050, True, "a")
    hidden.remove(1_010, 1_050, True, "a")
    hidden.expire(2_000)
    assert (hidden.in_flight, hidden.delayed, hidden.noisy(2_000)) == (0, 0, {})
