"""The remote engine beyond the contract: several processes at one host, and lost connections."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown
from cns_common.rpc.rpc import RpcClient, Server
from cns_common.sqlite.database import Database
from cqs.engines.contract import Change, ReceiveResult, Settlement
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.engines.remote.client_leases import ClientLeases
from cqs.engines.remote.engine import RemoteEngine
from cqs.engines.remote.host import end_session, handlers
from cqs.engines.remote.protocol import methods
from tests.conformance.drivers import ENGINE
from tests.conformance.support import HIDE_MS, POLL_S, QueueFixture, bodies, numbered


class Host:
    """A store host and its client processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = Clock()
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        self.database = Database(self.directory, self.clock)
        self.engine = EmbeddedEngine(self.database, self.clock)
        self.database.start(asyncio.get_running_loop())
        self.server = Server(methods(ENGINE))
        self.server.answer(handlers(ENGINE, self.engine, self.clock))
        self.server.on_close.append(end_session)
        await self.server.start(self.directory / "socket")

    async def stop(self) -> None:
        await self.server.close()
        await self.database.close()

    @property
    def polls_waiting(self) -> float:
        return sum(sample.value for sample in self.engine.samples())  # calls of clients and of workers

    async def join(self) -> tuple[RpcClient, RemoteEngine]:
        """Another client process."""
        client = RpcClient(self.directory / "socket", methods(ENGINE))
        await client.start()
        self._stack.push_async_callback(client.close)
        return client, await RemoteEngine.connect(client, ENGINE)

    async def end(self) -> None:
        await self._stack.aclose()
        await self.stop()


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(tmp_path)
    await host.start()
    yield host
    await host.end()


async def test_a_send_of_one_process_wakes_another(host: Host) -> None:
    (_, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(one, host.clock)
    waiter = await queue.at(two).wait()
    await queue.send(b"one")
    assert await waiter.wait(POLL_S)
    assert bodies(await queue.at(two).take()) == [b"one"]


async def test_the_wake_up_of_a_dead_process_goes_to_another(host: Host) -> None:
    (dying, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(host.engine, host.clock)
    first = await queue.at(one).wait()
    second = await queue.at(two).wait()
    await queue.send(b"one")
    assert await first.wait(POLL_S)
    assert not await second.wait(0)
    await dying.close()  # woken, and closed before it received
    assert await second.wait(POLL_S)
    assert bodies(await queue.at(two).take()) == [b"one"]


async def test_an_undelivered_wake_up_goes_to_another(host: Host) -> None:
    """The process dies while its wake-up is on the way."""
    (dying, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(host.engine, host.clock)
    first = await queue.at(one).wait()
    second = await queue.at(two).wait()
    closing = asyncio.create_task(dying.close())
    await queue.send(b"one")
    assert await second.wait(POLL_S)
    await closing
    first.close()


async def test_a_dead_process_leaves_no_waiter_behind(host: Host) -> None:
    (dying, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(host.engine, host.clock)
    for _ in range(50):
        await queue.at(one).wait()
    second = await queue.at(two).wait()
    await dying.close()
    while len(host.server.sessions) > 1:
        await asyncio.sleep(0)
    for i in range(3):
        await queue.send(b"%d" % i)
        assert await second.wait(POLL_S)
        assert bodies(await queue.take()) == [b"%d" % i]


async def test_a_host_that_restarts_wakes_each_waiter_once(host: Host) -> None:
    _, remote = await host.join()
    queue = QueueFixture(remote, host.clock)
    waiting = [await queue.wait() for _ in range(5)]
    await host.stop()
    await host.start()
    assert await asyncio.gather(*[waiter.wait(POLL_S) for waiter in waiting]) == [True] * 5
    await queue.counts()
    assert not [waiter for waiter in waiting if await waiter.wait(0)]
    for i, waiter in enumerate(waiting):
        await queue.send(b"%d" % i)
        await queue.counts()
        assert await waiter.wait(POLL_S)
        await queue.take()


async def test_after_a_restart_a_wake_up_not_used_is_still_passed_on(host: Host) -> None:
    _, remote = await host.join()
    queue = QueueFixture(remote, host.clock)
    first, second = await queue.wait(), await queue.wait()
    await host.stop()
    await host.start()
    assert await first.wait(POLL_S)
    assert await second.wait(POLL_S)
    assert not await queue.take()
    await queue.send(b"one")
    await queue.counts()
    first.close()  # woken by the host; the wake-up was not used
    assert await second.wait(POLL_S)


async def test_polls_outlive_a_restart_of_the_host(host: Host) -> None:
    _, remote = await host.join()
    queue = QueueFixture(remote, host.clock)

    async def poll() -> list[bytes]:
        while True:
            try:
                return bodies((await queue.poll()).messages)
            except OutcomeUnknown:
                continue

    polls = [asyncio.create_task(poll()) for _ in range(20)]
    await queue.counts()
    await host.stop()
    await host.start()
    await queue.send(*numbered(20))
    assert sorted(body for got in await asyncio.gather(*polls) for body in got) == numbered(20)


async def test_a_waiter_closed_during_its_wake_up_leaves_nothing_at_the_host(host: Host) -> None:
    """The host's half of a waiter ends with the client's, even if both end at the same moment."""
    _, remote = await host.join()
    queue = QueueFixture(remote, host.clock)
    for i in range(50):
        waiter = await queue.wait()
        sending = asyncio.create_task(queue.send(b"%d" % i))
        for _ in range(i % 10):
            await asyncio.sleep(0)
        waiter.close()
        await sending
        await queue.delete(*await queue.take())
    await queue.counts()
    watching = [task for task in asyncio.all_tasks() if "_Watch._push" in repr(task)]
    assert not watching


async def test_a_waiter_leaves_no_reference_cycles(host: Host) -> None:
    _, remote = await host.join()
    queue = QueueFixture(remote, host.clock)
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            (await queue.wait()).close()
        await queue.counts()
        assert gc.collect() < 50
    finally:
        gc.enable()


async def test_a_message_for_a_dead_process_goes_to_another_at_once(host: Host) -> None:
    (dying, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(two, host.clock)
    lost = asyncio.create_task(one.long_polls().receive(queue.q, 1, HIDE_MS, POLL_S))
    while not host.polls_waiting:
        await asyncio.sleep(0)
    await dying.close()
    assert await lost == ReceiveResult(), "its host is gone from its view"
    while host.polls_waiting:
        await asyncio.sleep(0)
    await queue.send(b"one")
    assert bodies(await queue.take()) == [b"one"]


async def test_leases_of_a_dead_process_are_released_at_once(host: Host) -> None:
    """The leases of all long polls are released: the process may have died before it read the response, or while it
    worked."""
    (dying, one), (_, two) = await host.join(), await host.join()
    queue, long_polls = QueueFixture(two, host.clock), one.long_polls()
    await queue.send(*numbered(5))
    done, renewed, put_off = (await long_polls.receive(queue.q, 3, HIDE_MS, 0)).messages
    (at_work,) = (await long_polls.receive(queue.q, 1, HIDE_MS, 0)).messages
    (unread,) = (await long_polls.receive(queue.q, 1, HIDE_MS, 0)).messages
    changes = tuple([(queue.q, Change(each.handle, queue.now_ms + HIDE_MS)) for each in (renewed, put_off)])
    await one.settle(Settlement(deletes=((queue.q, done.handle),), changes=changes), queue.now_ms)
    await dying.close()
    taken: list[bytes] = []
    while len(taken) < 2:
        taken += bodies((await two.long_polls().receive(queue.q, 10, HIDE_MS, POLL_S)).messages)
    assert sorted(taken) == [at_work.body, unread.body]
    assert await queue.counts() == (0, 4, 0), "messages in flight stay hidden"


async def test_a_message_received_by_another_process_is_not_released(host: Host) -> None:
    (dying, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(two, host.clock)
    await queue.send(b"one")
    assert (await one.long_polls().receive(queue.q, 1, HIDE_MS, 0)).messages
    queue.advance(2 * HIDE_MS)
    assert bodies(await queue.take(hide_ms=10 * HIDE_MS)) == [b"one"]
    await dying.close()
    while len(host.server.sessions) > 1:
        await asyncio.sleep(0)
    await queue.counts()
    assert not await queue.take()


async def test_leases_that_ended_are_forgotten(host: Host) -> None:
    """Leases that a living client changed are not released: they end by themselves."""
    handed = ClientLeases(host.engine, host.clock)
    queue = QueueFixture(host.engine, host.clock)
    await queue.send(*numbered(3))
    await handed.record(queue.q, await queue.receive(2), HIDE_MS)
    assert len(handed) == 2
    host.clock.advance(2 * HIDE_MS)
    await handed.record(queue.q, await queue.receive(1), HIDE_MS)
    assert len(handed) == 1


async def test_a_lease_made_as_its_process_died_is_released_at_once(host: Host) -> None:
    (dying, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(host.engine, host.clock)
    lost = asyncio.create_task(one.long_polls().receive(queue.q, 1, HIDE_MS, POLL_S))
    while not host.polls_waiting:
        await asyncio.sleep(0)
    sending = asyncio.create_task(queue.send(b"one"))
    await dying.close()
    await asyncio.gather(sending, lost)
    received = await two.long_polls().receive(queue.q, 1, HIDE_MS, POLL_S)
    assert bodies(received.messages) == [b"one"]


async def test_a_host_that_stops_keeps_running_leases(host: Host) -> None:
    _, remote = await host.join()
    queue = QueueFixture(remote, host.clock)
    await queue.send(b"one")
    assert (await remote.long_polls().receive(queue.q, 1, HIDE_MS, 0)).messages
    await host.stop()
    await host.start()
    assert not await queue.take()


async def test_waits_end_with_their_host_and_go_on_with_the_next(host: Host) -> None:
    _, remote = await host.join()
    queue, long_polls = QueueFixture(remote, host.clock), remote.long_polls()
    waiting = asyncio.create_task(long_polls.receive(queue.q, 1, HIDE_MS, POLL_S))
    while not host.polls_waiting:
        await asyncio.sleep(0)
    await host.stop()
    assert await waiting == ReceiveResult()
    await host.start()
    waiting = asyncio.create_task(long_polls.receive(queue.q, 1, HIDE_MS, POLL_S))
    await queue.send(b"one")
    assert bodies((await waiting).messages) == [b"one"]


async def test_handles_are_good_for_every_process(host: Host) -> None:
    (_, one), (_, two) = await host.join(), await host.join()
    queue = QueueFixture(one, host.clock)
    await queue.send(b"one")
    assert await queue.at(two).delete(await queue.take_one()) == [0]
