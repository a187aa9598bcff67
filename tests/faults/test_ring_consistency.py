"""The consistencies of `bdqs` on a ring of three whose nodes are killed: which go on with two and with one, and that
none loses what it acknowledged. Copies by the replication factor. Run by `make test-ring`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import Cluster
from cassandra.query import QueryTrace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.errors import CnsError
from cqs.engines.bdqs.consistency import QueueConsistency
from cqs.engines.contract import Entry, Outcome, QueueRef
from lab.harness.ring_engine import Place, Process, make_keyspace, process
from lab.harness.servers import Ring
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.conformance.support import QueueFixture

MESSAGES = 20
"""To be sent, and half as many to be received and deleted, before and during each outage."""
GOES_ON_S = 1_200.0
"""How long calls fail until the driver and the nodes have noticed that a node is gone."""
REFUSED_TRIES = 3
PAUSE_S = 0.2
HIDE_MS = 600_000
RETENTION_MS = 14 * 86_400_000
NEEDS = {
    QueueConsistency.SINGLE: 1,
    QueueConsistency.QUORUM: 2,
    QueueConsistency.SERIAL: 2,
    QueueConsistency.ALL: 3,
}
"""The nodes of three without which a queue does not go on."""
ROWS = 30
TRACED_S = 30.0

pytestmark = pytest.mark.ring


class QueueUse:
    """A queue in use, and its acknowledged operations."""

    def __init__(self, user: Process, mode: QueueConsistency) -> None:
        self._user = user
        self.mode = mode
        self.q = QueueRef(f"queue-{mode}", False, RETENTION_MS, options=(("Consistency", mode.value),))
        self.sending = 0
        self.sent: set[str] = set()
        self.deleting: set[str] = set()
        self.deleted: set[str] = set()
        self.failed = 0

    async def go_on(self) -> None:
        """Send, and receive and delete half as many."""
        goal_sent, goal_deleted = len(self.sent) + MESSAGES, len(self.deleted) + MESSAGES // 2
        async with asyncio.timeout(GOES_ON_S):
            while len(self.sent) < goal_sent:
                await self._try(self.send())
            while len(self.deleted) < goal_deleted:
                await self._try(self._receive_and_delete())

    async def is_refused(self) -> None:
        for _ in range(REFUSED_TRIES):
            with pytest.raises(CnsError):
                await self.send()

    async def _try(self, call: Awaitable[None]) -> None:
        try:
            await call
        except CnsError:
            self.failed += 1
            await asyncio.sleep(PAUSE_S)

    async def send(self) -> None:
        self.sending += 1
        now_ms = self._user.clock.now_ms()
        entry = Entry(f"{self.mode}-{self.sending}", b"body", now_ms, now_ms)
        await self._user.engine.send(self.q, [entry], now_ms)
        self.sent.add(entry.id)

    async def _receive_and_delete(self) -> None:
        now_ms = self._user.clock.now_ms()
        for message in (await self._user.engine.receive(self.q, 1, now_ms + HIDE_MS, now_ms)).messages:
            self.deleting.add(message.id)
            if await self._user.engine.delete(self.q, [message.handle], now_ms) == [Outcome.DONE]:
                self.deleted.add(message.id)


async def _left(place: Place, used: QueueUse) -> set[str]:
    """The messages that a new process receives after all leases have ended, until all expected ones have come."""
    async with process(place) as user:
        queue = QueueFixture(user.engine, user.clock)
        queue.q = used.q
        queue.advance(2 * HIDE_MS)
        found: set[str] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    queue.now_ms = user.clock.now_ms()
                    more = {message.id for message in await queue.drain(24 * 3_600_000)}
                    found |= more
                    if not more and not used.sent - used.deleting - found:
                        break
                    await asyncio.sleep(PAUSE_S)
        return found


async def test_each_goes_on_with_as_many_nodes_as_it_needs(ring: Ring, capfd: pytest.CaptureFixture[str]) -> None:
    """`single` survives the loss of R − 1 = 2 of 3 replicas. The first node stays: the others find it again."""
    place = Place(await make_keyspace(ring), "bdqs")
    async with process(place) as user:
        queues = [QueueUse(user, mode) for mode in NEEDS]
        for used in queues:
            await used.go_on()
        try:
            for alive, lost in ((2, 3), (1, 2)):
                await asyncio.to_thread(ring.kill, lost)
                for used in queues:
                    if NEEDS[used.mode] <= alive:
                        await used.go_on()
                    else:
                        await used.is_refused()
        finally:
            await asyncio.to_thread(ring.restart, 2)
            await asyncio.to_thread(ring.restart, 3)
        for used in queues:
            await used.go_on()
    for node in (2, 3):
        await asyncio.to_thread(ring.nodetool, node, "repair", "-full", place.cassandra.keyspace)
    for used in queues:
        left = await _left(place, used)
        with capfd.disabled():
            print(
                json.dumps(
                    {
                        "consistency": used.mode,
                        "sent": len(used.sent),
                        "deleted": len(used.deleted),
                        "failed calls": used.failed,
                        "lost": len(used.sent - used.deleting - left),
                        "came back": len(used.deleted & left),
                    }
                )
            )
        assert used.sent - used.deleting - left == set()
        assert used.deleted & left == set()


@pytest.mark.parametrize("copies", [1, 2, 3])
async def test_each_row_has_as_many_copies_as_the_factor(ring: Ring, copies: int) -> None:
    """A read of all replicas is answered by so many nodes."""
    place = await make_keyspace(ring, copies)
    async with process(Place(place, "bdqs")) as user:
        queue = QueueFixture(user.engine, user.clock)
        await queue.send(*[b"%d" % number for number in range(ROWS)])
    asked = await asyncio.to_thread(_nodes_that_read, place, copies)
    assert asked == [copies] * ROWS


def _nodes_that_read(place: CassandraAddress, least: int) -> list[int]:
    """How many nodes read each message, by Cassandra's traces of reads of all replicas. A node may write its part of a
    trace after the read was answered: wait until there are `least`."""
    with Cluster(place.hosts, place.port) as cluster:
        session = cluster.connect(place.keyspace)
        keys = list(session.execute("SELECT queue, bucket, seq FROM bdqs_messages"))
        read = session.prepare("SELECT id FROM bdqs_messages WHERE queue = ? AND bucket = ? AND seq = ?")
        read.consistency_level = ConsistencyLevel.ALL
        found = []
        for key in keys:
            trace = session.execute(read.bind(key), trace=True).get_query_trace(TRACED_S)
            wait_until(partial(_has_readers, trace, least))
            found.append(len(_readers(trace)))
        return found


def _has_readers(trace: QueryTrace, least: int) -> bool:
    return len(_readers(trace)) >= least


def _readers(trace: QueryTrace) -> set[str]:
    trace.populate(TRACED_S)
    return {str(event.source) for event in trace.events if event.description.startswith("Executing single-partition")}
