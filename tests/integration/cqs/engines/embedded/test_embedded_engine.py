"""The embedded engine beyond the contract: work at any depth, limits, and full disks."""

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
from cqs.engines.embedded import maintenance, queue_state, receive, transaction
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import DONE, QueueFixture, bodies, numbered
from tests.integration.storage.faulty_disk import FaultyDisk

SHALLOW, DEEP = 100, 10_000
MORE_WORK_MAX = 1.2


@asynccontextmanager
async def open_engine(
    directory: Path, disk: FaultyDisk | None = None
) -> AsyncIterator[tuple[Database, EmbeddedEngine]]:
    clock = Clock()
    database = Database(directory, clock, disk.vfs if disk else None)
    engine = EmbeddedEngine(database, clock)
    database.start(asyncio.get_running_loop())
    try:
        yield database, engine
    finally:
        await database.close()


# -- work at any depth ------------------------------------------------------------------------------------------------


class StepCounter:
    """Steps of SQLite's virtual machine."""

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


async def _fill(engine: EmbeddedEngine, clock: Clock, kind: str, n: int) -> QueueFixture:
    queue = QueueFixture(engine, clock, fifo=kind != "standard")
    for start in range(0, n, 1_000):
        width = min(1_000, n - start)
        groups = {"standard": "", "one group": "g"}
        await queue.send_entries([queue.entry(b"x", group=groups.get(kind, f"g {start + i}")) for i in range(width)])
    if kind == "blocked groups":
        await queue.drain(3_600_000)
    return queue


@pytest.mark.parametrize("kind", ["standard", "one group", "many groups", "blocked groups"])
async def test_no_call_costs_more_in_a_deep_queue(tmp_path: Path, kind: str) -> None:
    async with open_engine(tmp_path) as (database, engine):
        work = StepCounter(database)
        costs: list[dict[str, int]] = []
        for depth in (SHALLOW, DEEP):
            queue = await _fill(engine, Clock(), kind, depth)
            await queue.send(b"x", group="free")
            held = (await queue.take(2))[0]
            costs.append(
                {
                    "send": await work.of(partial(queue.send, b"x", group="h")),
                    "receive": await work.of(queue.take),
                    "change": await work.of(partial(queue.hide, held, 60_000)),
                    "delete": await work.of(partial(queue.delete, held)),
                    "peek": await work.of(partial(engine.peek, queue.q, "", 10, queue.now_ms)),
                    "counts": await work.of(queue.counts),
                    "purge": await work.of(queue.purge),
                    "drop": await work.of(queue.drop),
                    "maintain": await work.of(partial(engine.maintain, 10, queue.now_ms)),
                }
            )
        shallow, deep = costs
        assert {name for name in deep if deep[name] > shallow[name] * MORE_WORK_MAX + 20} == set()


async def test_a_fair_queue_looks_at_a_bounded_number_of_tenants(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as (database, engine):
        work = StepCounter(database)
        steps: list[int] = []
        for backlog in (1_000, 10_000):
            queue = QueueFixture(engine, Clock())
            await queue.send_entries([queue.entry(b"x", group="loud") for _ in range(backlog)])
            await queue.send_entries([queue.entry(b"x", group=f"quiet {i}") for i in range(300)])
            for _ in range(6):
                await queue.take(10, 3_600_000)
            steps.append(await work.of(queue.take))
        assert steps[1] <= steps[0] * MORE_WORK_MAX + 20


@pytest.mark.parametrize("visible", [[], ["quiet 1"], ["loud", "quiet 1", "loud"]], ids=["none", "one", "three"])
async def test_tenants_with_nothing_visible_cost_a_fair_queue_nothing(tmp_path: Path, visible: list[str]) -> None:
    async with open_engine(tmp_path) as (database, engine):
        work = StepCounter(database)
        steps: list[int] = []
        for hidden in (2, 200):
            queue = QueueFixture(engine, Clock())
            await queue.send_entries([queue.entry(b"x", group="loud") for _ in range(40)])
            await queue.drain(3_600_000)
            await queue.send_entries([queue.entry(b"x", group=f"quiet {i}", delay_ms=600_000) for i in range(hidden)])
            for tenant in visible:
                await queue.send(b"x", group=tenant)
                queue.advance(1)
            received: list[Message] = []

            async def receive(queue: QueueFixture = queue, received: list[Message] = received) -> None:
                received += await queue.take(3)

            steps.append(await work.of(receive))
            assert [message.group for message in received] == sorted(visible, reverse=True)
        assert steps[1] <= steps[0] * MORE_WORK_MAX + 20


# -- limits -----------------------------------------------------------------------------------------------------------


async def test_an_empty_queue_near_its_limit_is_just_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "IN_FLIGHT_MAX", 25)
    async with open_engine(tmp_path) as (_, engine):
        queue = QueueFixture(engine, Clock())
        await queue.send(*numbered(20))
        assert len(await queue.drain()) == 20
        received = await queue.receive()
        assert (received.messages, received.limit_reached) == ((), False)


async def test_more_queues_than_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "QUEUES_IN_MEMORY_MAX", 3)
    async with open_engine(tmp_path) as (_, engine):
        queues = [QueueFixture(engine, Clock()) for _ in range(20)]
        for _ in range(3):
            await asyncio.gather(*[queue.send(b"one", b"two") for queue in queues])
            held = await asyncio.gather(*[queue.take(1) for queue in queues])
            await asyncio.gather(*[queue.delete(*of) for queue, of in zip(queues, held, strict=True)])
        assert [await queue.counts() for queue in queues] == [(3, 0, 0)] * 20
        taken = [message for queue in queues for message in await queue.take(2)]
        qs = [queue.q for queue in queues for _ in range(2)]
        deletes = [(q, message.handle) for q, message in zip(qs, taken, strict=True)]
        deletes = deletes[::2] + deletes[1::2]  # the first queue, after all others
        settled = await engine.settle(Settlement(deletes=tuple(deletes)), queues[0].now_ms)
        assert set(settled.deletes) == {DONE}
        assert [await queue.counts() for queue in queues] == [(1, 0, 0)] * 20


# -- clearing up ------------------------------------------------------------------------------------------------------


async def test_clearing_up_leaves_no_row_behind(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as (database, engine):
        queue = QueueFixture(engine, Clock(), fifo=True, retention_ms=60_000)
        for i in range(30):
            await queue.send(*numbered(10), group=f"{i}")
            await queue.send(b"x", group=f"{i}", dedup=f"{i}")
        await queue.take(5, attempt_id="a")
        await queue.purge()
        await queue.send(*numbered(40), group="g")
        queue.advance(2 * ATTEMPT_WINDOW_MS)
        while await engine.maintain(50, queue.now_ms) == 50:
            pass
        left = {
            table: database.reader.execute(f"SELECT count(*) FROM {table}").get
            for table in ("slots", "bodies", "dedup", "attempts")
        }
        assert left == dict.fromkeys(left, 0)
        assert database.reader.execute("SELECT count(*) FROM lines").get == 1


async def test_no_step_of_clearing_up_is_long(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as (database, engine):
        queue = QueueFixture(engine, Clock())
        await _fill(engine, Clock(), "standard", 100)
        await queue.send_entries([queue.entry(b"x") for _ in range(3 * maintenance.STEP_ROWS_MAX)])
        await queue.purge()
        before = database.commits
        assert await engine.maintain(10 * maintenance.STEP_ROWS_MAX, queue.now_ms) >= 3 * maintenance.STEP_ROWS_MAX
        assert database.commits - before >= 3


async def test_an_empty_queue_is_known_without_a_transaction(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as (database, engine):
        queue = QueueFixture(engine, Clock())
        for body in numbered(3):
            assert not await queue.take()
            before = database.commits
            assert not await queue.take()
            assert database.commits == before
            await queue.send(body)
            (message,) = await queue.take()
            assert not await queue.take()
            assert await queue.delete(message) == [DONE]
        await queue.drop()
        assert (await queue.receive()).dropped


# -- full disks -------------------------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_sends_and_loses_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with open_engine(tmp_path, disk) as (_, engine):
        queue = QueueFixture(engine, Clock())
        await queue.send(*numbered(10))
        held = await queue.take(3)
        counts = await queue.counts()
        disk.full = True
        for call in (queue.send(b"refused"), queue.delete(held[0]), queue.purge(), queue.drop()):
            with pytest.raises(StoreFull):
                await call
        assert disk.refused
        disk.full = False
        assert await queue.counts() == counts == (7, 3, 0)
        assert await queue.delete(held[0]) == [DONE]
        (sent,) = await queue.send(b"taken")
        assert sent.sequence > held[-1].sequence
        assert len(await queue.drain()) == 8
        assert len(await queue.peek_all()) == 10


async def test_a_failed_send_wakes_no_waiter(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with open_engine(tmp_path, disk) as (_, engine):
        queue = QueueFixture(engine, Clock())
        waiter = await queue.wait()
        disk.full = True
        with pytest.raises(StoreFull):
            await queue.send(b"refused")
        assert not await waiter.wait(0)
        disk.full = False
        await queue.send(b"taken")
        assert await waiter.wait(PATIENCE_S)
        assert bodies(await queue.take()) == [b"taken"]


def test_a_moment_is_counted_by_tenths_of_a_second() -> None:
    """Deleted messages leave nothing in the histogram after their tenth of a second."""
    hidden = queue_state.HiddenHistogram()
    hidden.become_fair()
    hidden.add(1_000, 1_050, True, "a")
    hidden.remove(1_010, 1_050, True, "a")
    hidden.expire(2_000)
    assert (hidden.in_flight, hidden.delayed, hidden.noisy(2_000)) == (0, 0, {})


# -- dropped queues ---------------------------------------------------------------------------------------------------


async def test_a_dropped_queue_is_remembered_for_two_days(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as (database, engine):
        clock = Clock()
        dropped = [QueueFixture(engine, clock) for _ in range(3)]
        last = dropped[-1]
        for queue in dropped:
            await queue.send(b"x")
            await queue.engine.drop(queue.q, last.now_ms)
        last.advance(maintenance.REMEMBER_DROPPED_MS - 1)
        await engine.maintain(1_000, last.now_ms)
        assert remembered(database) == 3
        assert (await last.receive()).dropped
        last.advance(1)
        assert await engine.maintain(2, last.now_ms) == 2
        assert remembered(database) == 1
        await engine.maintain(1_000, last.now_ms)
        assert remembered(database) == 0


async def test_drops_of_an_older_directory_are_forgotten(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as (database, _):
        database.connection.execute("DROP TABLE dead_queues")
        database.connection.execute("CREATE TABLE dead_queues(queue TEXT PRIMARY KEY) WITHOUT ROWID")
        database.connection.execute("INSERT INTO dead_queues VALUES ('q')")
    async with open_engine(tmp_path) as (database, engine):
        assert remembered(database) == 1
        await engine.maintain(1_000, Clock().now_ms())
        assert remembered(database) == 0


def remembered(database: Database) -> int:
    found: int = database.reader.execute("SELECT count(*) FROM dead_queues").get
    return found
