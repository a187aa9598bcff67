"""Each engine on a ring of three nodes: a node is killed or hangs, processes are killed, answers are lost. No
acknowledged message is lost, and no deleted one comes back. Run by `make faults`."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from cns_common.cassandra.session import CassandraAddress
from cqs.engines.contract import QueueRef
from tests.conformance.support import QueueFixture
from tests.faults.ring_child import RETENTION_MS, Report, now_ms
from tests.faults.ring_engine import make_keyspace, process
from tests.faults.ring_ledger import RingLedger
from tests.servers import Ring

PROCESSES = 2
PHASE = 150
"""Sends and deletes to be acknowledged before, during and after the outage of a node."""
PHASE_S = 180.0
KILL_AFTER = (50, 250)
"""A process is killed after so many reports, drawn anew for each, and another one takes its place."""
QUORUM_AGES_MS = 120_000
DRAINS = 20
ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.ring, pytest.mark.timeout(900)]


class Users:
    """The processes that use the queue, each replaced when it was killed."""

    def __init__(self, place: CassandraAddress, engine: str, q: QueueRef, dice: random.Random) -> None:
        self._arguments = [",".join(place.hosts), str(place.port), place.keyspace, engine, q.id]
        self._dice = dice
        self._ending = False
        self._running: set[Process] = set()
        self._started = 0
        self.ledger = RingLedger()

    async def run(self) -> None:
        """One process after the other."""
        while not self._ending:
            self._started += 1
            name = f"p{self._started}"
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.faults.ring_child",
                *self._arguments,
                name,
                stdin=PIPE,
                stdout=PIPE,
                cwd=ROOT,
            )
            self._running.add(child)
            await self._follow(child, name, self._dice.randrange(*KILL_AFTER))
            code = await child.wait()
            self._running.discard(child)
            assert code in (0, -9), f"{name} ended with {code}"

    async def _follow(self, child: Process, name: str, reports: int) -> None:
        assert child.stdout is not None
        number = 0
        async for line in child.stdout:
            if not line.endswith(b"\n"):
                return  # cut off by the kill
            self.ledger.enter(msgspec.json.decode(line, type=Report), name)
            number += 1
            if number == reports and not self._ending:
                child.kill()
                self.ledger.killed[name] = now_ms()

    def end(self) -> None:
        self._ending = True
        for child in self._running:
            assert child.stdin is not None
            child.stdin.close()


@asynccontextmanager
async def _using(users: Users) -> AsyncIterator[None]:
    running = [asyncio.create_task(users.run()) for _ in range(PROCESSES)]
    try:
        yield
    finally:
        users.end()
        await asyncio.gather(*running)


async def _progress(users: Users) -> None:
    goal = users.ledger.acknowledged + PHASE
    async with asyncio.timeout(PHASE_S):
        while users.ledger.acknowledged < goal:
            await asyncio.sleep(0.05)


async def _left(place: CassandraAddress, engine: str, q: QueueRef, expected: set[str]) -> list[str]:
    """The messages that a new process receives after all leases, in the order received. While its cache is filled a
    receive may return nothing: it goes on until all expected ones came, or nothing came for a while."""
    async with process(place, engine) as user:
        queue = QueueFixture(user.engine, user.clock)
        queue.q = q
        found: list[str] = []
        for _ in range(DRAINS):
            if len(found) and not expected - set(found):
                break
            queue.now_ms = user.clock.now_ms()
            queue.advance(QUORUM_AGES_MS)
            found += [message.id for message in await queue.drain(24 * 3_600_000)]
        return found


def _note(engine: str, lost: str, ledger: RingLedger, left: list[str]) -> None:
    """The line of docs/reliability.md."""
    print(
        json.dumps(
            {
                "engine": engine,
                "node": lost,
                "sent": len(ledger.sent),
                "deleted": len(ledger.deleted),
                "failed calls": dict(ledger.failed),
                "processes killed": len(ledger.killed),
                "lost": len(ledger.expected - set(left)),
                "resurrected": len(ledger.resurrected() | (ledger.deleted.keys() & set(left))),
                "left": len(left),
                "left twice": len(left) - len(set(left)),
                "duplicates": dict(ledger.duplicates()),
            }
        ),
        file=sys.__stderr__,
    )


@pytest.mark.parametrize("engine", ["bdqs", "cassieq", "pipes", "cqs"])
@pytest.mark.parametrize("lost", ["pause", "kill"])
async def test_an_engine_loses_nothing(ring: Ring, engine: str, lost: str) -> None:
    place = await make_keyspace(ring)
    q = QueueRef(f"queue-{uuid4()}", False, RETENTION_MS)
    dice = random.Random(f"{engine} {lost}")
    users = Users(place, engine, q, dice)
    node = dice.choice([1, 2, 3])
    async with _using(users):
        await _progress(users)
        await asyncio.to_thread(ring.kill if lost == "kill" else ring.pause, node)
        try:
            await _progress(users)
        finally:
            await asyncio.to_thread(ring.restart if lost == "kill" else ring.resume, node)
        await _progress(users)
    ledger = users.ledger
    left = await _left(place, engine, q, ledger.expected)
    _note(engine, lost, ledger, left)
    assert ledger.killed
    assert ledger.expected - set(left) == set()
    assert ledger.deleted.keys() & set(left) == set()
    assert ledger.resurrected() == set()
    assert ledger.invented() == set()
    assert set(left) <= ledger.sending
    assert ledger.duplicates()["none that is known"] == 0
