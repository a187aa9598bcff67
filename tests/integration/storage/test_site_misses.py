"""Writes that the other site may lack are recorded before their callers are answered; commands are fenced as processes
are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property

import pytest
from cassandra import ConsistencyLevel, DriverException, Unavailable, WriteTimeout, WriteType

from cns_backend.sites import membership
from cns_backend.sites.decision import SiteDecision
from cns_backend.sites.membership import ENDING_MS, SiteMembership, open_membership
from cns_backend.sites.store import GAP_MS, TIMES
from cns_common.cassandra import session
from cns_common.cassandra.connection import STATEMENT_S, CassandraAddress, connect
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Consistency, Row, Statement
from cns_common.cassandra.write_timestamps import WriteDates
from cns_common.errors import OutcomeUnknown, StartError, StoreUnavailable
from cqs.engines.cassandra import schema as queues
from tests.integration.storage.two_sites import TO_DC2, LinkedStore, Site
from tests.machine_clocks import MachineClocks

LATE = WriteTimeout("the other site is late", consistency=ConsistencyLevel.EACH_QUORUM, write_type=WriteType.SIMPLE)
AWAY = Unavailable("the other site is away", consistency=ConsistencyLevel.EACH_QUORUM)


class CutCassandra(Cassandra):
    """Its writes to both sites are applied here, and fail: the other site does not answer."""

    failure: DriverException | None = LATE
    once = False
    waiting = False
    """For `answers`."""

    @cached_property
    def answers(self) -> asyncio.Event:
        event = asyncio.Event()
        event.set()
        return event

    async def _try(self, statement: object, limit_s: float) -> list[Row]:
        rows = await super()._try(statement, limit_s)
        if getattr(statement, "consistency_level", None) != Consistency.EACH:
            return rows
        self.waiting = True
        await self.answers.wait()
        failure = self.failure
        if failure is not None:
            self.failure = None if self.once else failure
            raise failure
        return rows


class StoppedStore(LinkedStore):
    """Its gaps cannot be recorded while it is `stopped`, and wait for `going_on` while that is clear."""

    stopped = False

    def __init__(self, cassandra: Cassandra) -> None:
        super().__init__(cassandra)
        self.going_on = asyncio.Event()
        self.going_on.set()

    async def now_ms(self) -> int:
        await self.going_on.wait()
        if self.stopped:
            raise StoreUnavailable("stopped")
        return await super().now_ms()


class Process:
    """A process of the active site dc1, which believes that dc2 answers."""

    def __init__(self, own: SiteMembership, store: StoppedStore, cassandra: CutCassandra) -> None:
        self.own = own
        self.store = store
        self.cassandra = cassandra

    async def leave(self) -> None:
        """Remove its row."""
        await self.own._membership.leave()

    async def begin_generation(self) -> bool:
        """A conditional write, as the engines do it."""

        async def attempt() -> bool:
            return await self.cassandra.run_conditional(queues.FIRST_GENERATION, 1, "q")

        async def ours() -> bool:
            return await self.cassandra.run(queues.FIND_QUEUE, "q") == [(1, None)]

        return await resolve_lost_write(attempt, ours)


@pytest.fixture
async def process(site: Site, cassandra_address: CassandraAddress) -> AsyncIterator[Process]:
    """Its clocks stand still: it stays certain of its site, however slow the machine is."""
    store = StoppedStore(site.store._cassandra)
    own = SiteMembership(store, MachineClocks().clock(), "dc1", "dc2", writes_each=True)
    await own.look()
    async with _cut(cassandra_address, own) as cassandra:
        yield Process(own, store, cassandra)
    await own.stand_by()


@asynccontextmanager
async def _cut(address: CassandraAddress, own: SiteMembership) -> AsyncIterator[CutCassandra]:
    dates = WriteDates()
    connection = await asyncio.to_thread(connect, address, dates, True)
    cassandra = CutCassandra(address, connection, asyncio.get_running_loop(), dates, own)
    try:
        yield cassandra
    finally:
        await cassandra.close()


@pytest.mark.parametrize("failure", [LATE, AWAY])
async def test_a_conditional_write_is_recorded_before_it_is_accepted(
    site: Site, process: Process, failure: DriverException
) -> None:
    begun_ms = await site.store.now_ms()
    process.cassandra.failure, process.cassandra.once = failure, True
    assert await process.begin_generation()
    (gap,) = await site.store.gaps("dc2", everywhere=False)
    assert gap.since_ms <= begun_ms < gap.until_ms
    assert (await site.store.view()).reachable


async def test_nobody_learns_of_a_write_before_it_is_recorded(site: Site, process: Process) -> None:
    process.store.going_on.clear()
    writing = asyncio.create_task(process.cassandra.run_conditional(queues.FIRST_GENERATION, 1, "q"))
    while not process.own._misses:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not writing.done()
    process.store.going_on.set()
    with pytest.raises(OutcomeUnknown):
        await writing
    assert len(await site.store.gaps("dc2", everywhere=False)) == 1


async def test_a_write_whose_caller_has_gone_is_recorded(site: Site, process: Process) -> None:
    writing = asyncio.create_task(process.cassandra.run(queues.ADD_GARBAGE, "cqs", "q", 1))
    while not process.cassandra._site_writes:
        await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait({writing})
    await process.cassandra.close()
    assert writing.cancelled()
    assert len(await site.store.gaps("dc2", everywhere=False)) == 1


async def test_what_cannot_be_recorded_is_not_accepted(site: Site, process: Process) -> None:
    process.store.stopped = True
    with pytest.raises(OutcomeUnknown):
        await process.begin_generation()
    process.cassandra.failure = None
    with pytest.raises(StoreUnavailable, match="cannot record"):
        await process.cassandra.run(queues.FIND_QUEUE, "q")
    process.store.stopped = False
    await process.own.renew()
    assert await process.cassandra.run(queues.FIND_QUEUE, "q") == [(1, None)]
    (gap,) = await site.store.gaps("dc2", everywhere=False)
    assert gap.since_ms < await site.store.now_ms() - STATEMENT_S * 1000


async def test_what_cannot_be_recorded_at_the_end_asks_for_a_repair(site: Site, process: Process) -> None:
    process.store.stopped = True
    with pytest.raises(OutcomeUnknown):
        await process.begin_generation()
    await process.own.stand_by()
    assert await site.store.gaps("dc2", everywhere=False) == []
    await process.leave()  # as if its row had expired
    with pytest.raises(ValueError, match="site dc2 may lack writes that were accepted"):
        await site.operator.activate(TO_DC2)
    process.store.stopped = False
    await process.own.look()  # dc1 is active again
    assert len(await site.store.gaps("dc2", everywhere=False)) == 1


async def test_an_end_does_not_wait_for_a_store_that_hangs(
    site: Site, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "LEAVE_S_MAX", 0.05)
    process.store.going_on.clear()
    await process.own.stand_by()
    await process.leave()
    assert len(await site.store.unended("dc2")) == 1
    process.store.going_on.set()


async def test_writes_that_outlast_the_end_of_a_session_are_recorded(
    site: Site, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CLOSE_S_MAX", 0.05)
    process.cassandra.answers.clear()
    writing = asyncio.create_task(process.cassandra.run(queues.ADD_GARBAGE, "cqs", "q", 1))
    while not process.cassandra.waiting:
        await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait({writing})
    await process.cassandra.close()
    await process.own.stand_by()
    assert len(await site.store.gaps("dc2", everywhere=False)) == 1
    process.cassandra.answers.set()


async def test_writes_that_fail_together_are_one_gap(site: Site, process: Process) -> None:
    writes = [process.cassandra.run(queues.ADD_GARBAGE, "cqs", "q", number) for number in range(20)]
    failed = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(one) for one in failed} == {OutcomeUnknown}
    assert len(await site.store.gaps("dc2", everywhere=False)) == 1


async def test_a_write_that_both_sites_have_leaves_no_gap(site: Site, process: Process) -> None:
    process.cassandra.failure = None
    assert await process.begin_generation()
    await process.cassandra.run(queues.ADD_GARBAGE, "cqs", "q", 1)
    assert await site.store.gaps("dc2", everywhere=False) == []


@pytest.mark.parametrize(
    ("statement", "level", "failure"),
    [
        (queues.FIRST_GENERATION, ConsistencyLevel.LOCAL_SERIAL, StoreUnavailable),  # failed before it was decided
        (queues.FIRST_GENERATION, ConsistencyLevel.EACH_QUORUM, OutcomeUnknown),
        (queues.ADD_GARBAGE, ConsistencyLevel.EACH_QUORUM, StoreUnavailable),
    ],
)
async def test_too_few_replicas(process: Process, statement: Statement, level: int, failure: type[Exception]) -> None:
    process.cassandra.failure = Unavailable("too few", consistency=level)
    values = (1, "q") if statement.conditional else ("cqs", "q", 1)
    with pytest.raises(failure):
        await process.cassandra.run(statement, *values)


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "INTERVAL_S", 0.05)


@asynccontextmanager
async def _command(
    address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, *, reachable: bool
) -> AsyncIterator[SiteMembership]:
    monkeypatch.setattr(LinkedStore, "reachable", reachable)
    monkeypatch.setattr(membership, "SiteStore", LinkedStore)
    async with open_membership(address, "dc1", "dc2", writes_each=True, at_once=True) as command:
        yield command


@pytest.mark.usefixtures("quick_renewals")
async def test_a_command_keeps_its_gap_open_until_it_ends(
    site: Site, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _command(cassandra_address, monkeypatch, reachable=False) as command:
        command.check()
        (first,) = await site.store.gaps("dc2", everywhere=False)
        grown = first
        while grown.until_ms <= first.until_ms:
            (grown,) = await site.store.gaps("dc2", everywhere=False)
        assert grown.since_ms == first.since_ms
        assert len((await site.store.decision()).processes) == 1
    assert not (await site.store.decision()).processes


def test_a_gap_outlives_what_a_killed_process_has_under_way() -> None:
    assert TIMES.certain_ms + STATEMENT_S * 1000 <= GAP_MS


@pytest.mark.usefixtures("quick_renewals")
async def test_a_command_does_not_delay_a_change_of_sites(
    site: Site, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on, as `cns replay` does while an endpoint asks it to wait."""
    monkeypatch.setattr(membership, "ENDING_MS", 0)
    async with _command(cassandra_address, monkeypatch, reachable=True) as command:
        change = asyncio.create_task(site.operator.activate(TO_DC2))
        await command.ended.wait()
        assert (await change).active == "dc2"
        assert not command.is_certain
        with pytest.raises(StoreUnavailable, match="dc1 is no longer active"):
            command.check()
        await command.look()
        assert not (await site.store.decision()).processes


async def test_a_change_of_sites_waits_for_what_a_command_has_sent(site: Site) -> None:
    machine = MachineClocks()
    store = StoppedStore(site.store._cassandra)
    command = SiteMembership(store, machine.clock(), "dc1", "dc2", writes_each=True, finishes=False)
    await command.look()
    command.check()
    assert await site.store.decide(1, SiteDecision("", 2))
    await command.renew()
    with pytest.raises(StoreUnavailable, match="dc1 is no longer active"):
        command.check()
    machine.run((ENDING_MS - 1) * 1_000_000)
    await command.look()
    assert len((await site.store.decision()).processes) == 1
    store.stopped = True
    await command.missed()
    machine.run(1_000_000)
    with pytest.raises(StoreUnavailable, match="stopped"):
        await command.look()
    assert len((await site.store.decision()).processes) == 1, "it has to record first what dc2 may lack"
    store.stopped = False
    await command.look()
    assert len(await site.store.gaps("dc2", everywhere=False)) == 1
    assert not (await site.store.decision()).processes
    await command.look()
    assert not (await site.store.decision()).processes
    await command.stand_by()


async def test_a_command_is_refused_where_another_site_is_active(
    site: Site, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.operator.activate(TO_DC2)
    with pytest.raises(StartError, match="site dc2 is active, this is dc1"):
        async with _command(cassandra_address, monkeypatch, reachable=True):
            pass
