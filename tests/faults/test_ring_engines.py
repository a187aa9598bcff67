"""Each engine on a ring of three nodes: a node is killed or hangs, processes are killed, answers are lost. No
acknowledged message is lost, and no deleted one comes back. Run by `make test-ring`."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from cns_common.errors import CnsError
from cqs.engines.contract import QueueRef
from lab.harness.ring_engine import Place, make_keyspace, process
from lab.harness.servers import Ring, redis_url
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import QueueFixture
from tests.faults.ring_child import RETENTION_MS, Report, now_ms
from tests.faults.ring_ledger import RingLedger

PROCESSES = 2
PHASE = 150
"""Sends and deletes to be acknowledged before, during and after the outage of a node."""
PHASE_S = 1_200.0
KILL_AFTER = (50, 250)
"""A process is killed after so many reports, drawn anew for each, and another one takes its place."""
LEASES_MS = 120_000
"""Longer than any lease by message time."""
PAUSE_S = 0.1
ROUNDS = 3
ENGINES = ["bdqs", "cassieq", "pipes", "cqs alone", "cqs"]
"""`cqs alone` has no Redis."""
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.ring


class Users:
    """The processes that use the queue, each replaced when it was killed."""

    def __init__(self, place: Place, q: QueueRef, seed: str) -> None:
        self._arguments = [*place.words(), q.id, seed]
        self._dice = random.Random(seed)
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


async def _left(place: Place, q: QueueRef, expected: set[str]) -> list[str]:
    """The messages that a new process receives after all leases, in the order received.

    An empty receive does not say that no message is left: the claim of a killed process hides messages until Cassandra
    ends it, and this process does not use its own before it renewed them after the step of its clock. So it goes on
    until all expected messages came and the engine counts no other; what has not come when the guard ends is lost."""
    async with process(place) as user:
        queue = QueueFixture(user.engine, user.clock)
        queue.q = q
        queue.advance(LEASES_MS)
        found: list[str] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    queue.now_ms = user.clock.now_ms()
                    with suppress(CnsError):
                        found += [message.id for message in await queue.drain(24 * 3_600_000)]
                        if not expected - set(found) and not (await queue.counts())[0]:
                            break
                    await asyncio.sleep(PAUSE_S)  # Cassandra ends claims by its own clock, which no test moves
        return found


def _figures(engine: str, lost: str, number: int, ledger: RingLedger, left: list[str]) -> str:
    """The round as a line of JSON, for the table in docs/reliability.md."""
    figures = {
        "engine": engine,
        "node": lost,
        "round": number,
        "sent": len(ledger.sent),
        "deleted": len(ledger.deleted),
        "failed calls": ledger.failed.total(),
        "processes killed": len(ledger.killed),
        "lost": len(ledger.expected - set(left)),
        "came back": len(ledger.resurrected() | (ledger.deleted.keys() & set(left))),
        "left": len(left),
        "left twice": len(left) - len(set(left)),
        "duplicates": dict(ledger.duplicates()),
    }
    return json.dumps(figures)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lost", ["pause", "kill"])
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
async def test_an_engine_loses_nothing(
    ring: Ring, engine: str, lost: str, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    name = engine.removesuffix(" alone")
    place = Place(await make_keyspace(ring), name, redis_url() if engine == "cqs" else "")
    q = QueueRef(f"queue-{uuid4()}", False, RETENTION_MS)
    seed = f"{engine} {lost} {number}"
    users = Users(place, q, seed)
    node = random.Random(seed).choice([1, 2, 3])
    async with _using(users):
        await _progress(users)
        await asyncio.to_thread(ring.kill if lost == "kill" else ring.pause, node)
        try:
            await _progress(users)
        finally:
            await asyncio.to_thread(ring.restart if lost == "kill" else ring.resume, node)
        await _progress(users)
    ledger = users.ledger
    left = await _left(place, q, ledger.expected)
    with capfd.disabled():
        print(_figures(engine, lost, number, ledger, left))
    assert ledger.killed
    assert ledger.expected - set(left) == set()
    assert ledger.deleted.keys() & set(left) == set()
    assert ledger.resurrected() == set()
    assert ledger.invented() == set()
    assert set(left) <= ledger.sending
    assert ledger.duplicates()["none that is known"] == 0
