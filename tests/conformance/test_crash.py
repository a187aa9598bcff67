"""A process is killed at any moment: acknowledged operations are done, others are done completely or not at all."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import uuid
from pathlib import Path

import msgspec
import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Engine, Entry, Outcome, QueueRef, SentEntry
from lab.harness.keyspace import OWN_KEYSPACE, own_keyspace
from tests.conformance.crash_child import HIDE_MS, Queues, Report, body_of
from tests.conformance.drivers import ON_CASSANDRA, Driver
from tests.conformance.support import QueueFixture

pytestmark = pytest.mark.differs_by_engine

ROUNDS = 2
LINES = (50, 2_500)
"""The least and the most reports before the kill."""
LAST_LINES = ["", "sent standard", "sent fifo", "held fifo", "deleted standard", "deleted fifo", "moved standard"]
"""The kind of the last report before the kill. Right after an acknowledgement, operations that were not stored would
show. '': any report."""
IN_GATE = ("sent fifo",)
"""The kind that `make test` runs, too."""


class Ledger:
    """The operations that killed processes began, and those that were acknowledged to them."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.sending: dict[str, set[str]] = {queues.standard.id: set(), queues.fifo.id: set()}
        self.sent: dict[str, dict[str, int]] = {queues.standard.id: {}, queues.fifo.id: {}}
        self.begun: dict[str, set[str]] = {"deleting": set(), "moving": set()}
        self.done: dict[str, set[str]] = {"deleted": set(), "moved": set()}
        self.held: list[Report] = []
        """The deliveries to the last process."""

    def enter(self, report: Report) -> None:
        match report.kind:
            case "sending":
                self.sending[report.queue].add(report.id)
            case "sent":
                self.sent[report.queue][report.id] = report.sequence
            case "held":
                self.held.append(report)
            case "deleting" | "moving":
                self.begun[report.kind].add(report.id)
            case _:
                self.done[report.kind].add(report.id)

    def expected_ids(self, queue: str) -> set[str]:
        """Messages that must be in the queue: sent, and no process began to remove them."""
        return self.sent[queue].keys() - self.begun["deleting"] - self.begun["moving"]


def _run_and_kill(driver: Driver, seed: str, last: str, tag: str, ledger: Ledger) -> None:
    lines = random.Random(seed).randrange(*LINES)
    arguments = [driver.name, str(driver.directory), seed, str(lines), last, tag]
    environment = {**os.environ, **({OWN_KEYSPACE: own_keyspace().keyspace} if driver.name in ON_CASSANDRA else {})}
    command = [sys.executable, "-m", "tests.conformance.crash_child", *arguments]
    ledger.held.clear()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], env=environment) as child:
        assert child.stdout is not None
        for number, line in enumerate(child.stdout):
            ledger.enter(msgspec.json.decode(line, type=Report))
            if number == lines and not last:
                child.kill()
    assert child.returncode == -9, "the child ended without a kill"


def _queue(engine: Engine, clock: Clock, q: QueueRef) -> QueueFixture:
    queue = QueueFixture(engine, clock)
    queue.q = q
    return queue


async def _check_messages(ledger: Ledger, standard: QueueFixture, moved: QueueFixture) -> None:
    """Acknowledged messages are there, deleted ones are not, none is there twice, and none was never sent."""
    in_standard, in_moved = [await _ids(queue) for queue in (standard, moved)]
    assert ledger.expected_ids(standard.q.id) <= in_standard <= ledger.sending[standard.q.id]
    assert not (in_standard | in_moved) & ledger.done["deleted"]
    assert ledger.done["moved"] <= in_moved <= ledger.begun["moving"]
    assert not in_standard & ledger.done["moved"]
    assert not in_standard & in_moved or not standard.engine.capabilities.atomic_settle
    assert ledger.begun["moving"] - ledger.begun["deleting"] <= in_standard | in_moved


async def _check_fifo_messages(ledger: Ledger, fifo: QueueFixture) -> None:
    in_fifo = await _ids(fifo)
    assert ledger.expected_ids(fifo.q.id) <= in_fifo <= ledger.sending[fifo.q.id]
    assert not in_fifo & ledger.done["deleted"]
    for peeked in await fifo.peek_all():
        assert ledger.sent[fifo.q.id].get(peeked.id, peeked.sequence) == peeked.sequence


async def _ids(queue: QueueFixture) -> set[str]:
    peeked = await queue.peek_all()
    assert all(one.body == body_of(one.id) for one in peeked)
    assert len({one.id for one in peeked}) == len(peeked)
    return {one.id for one in peeked}


async def _check_locks(ledger: Ledger, fifo: QueueFixture) -> None:
    """A group whose receive was acknowledged is still locked."""
    locked = {held.group for held in ledger.held if held.queue == fifo.q.id and held.id not in ledger.begun["deleting"]}
    received = await fifo.drain(hide_ms=1)
    assert not {message.group for message in received} & locked


async def _check_dedup(ledger: Ledger, fifo: QueueFixture, seed: str) -> None:
    """An acknowledged message that is sent again is a duplicate."""
    latest = [(one, sequence) for one, sequence in ledger.sent[fifo.q.id].items() if one.startswith(seed)][-20:]
    for message_id, sequence in latest:
        entry = Entry(message_id, b"again", fifo.now_ms, fifo.now_ms, "again", message_id)
        assert await fifo.send_entries([entry]) == [SentEntry(message_id, sequence, True)]


async def _check_handles(ledger: Ledger, queue: QueueFixture) -> None:
    """Handles from before the crash are stale once a message was received again."""
    delivered = {message.id for message in await queue.drain(hide_ms=1)}
    before = {held.id: held.handle for held in ledger.held if held.queue == queue.q.id and held.id in delivered}
    outcomes = await queue.engine.delete(queue.q, list(before.values()), queue.now_ms)
    assert set(outcomes) <= {Outcome.STALE}
    assert before.keys() <= {peeked.id for peeked in await queue.peek_all()}


async def _check_sequences(ledger: Ledger, queue: QueueFixture, seed: str) -> None:
    """Sequence numbers and handles are not used again."""
    message_id = f"{seed}-after-{queue.q.id}"
    entry = Entry(message_id, body_of(message_id), queue.now_ms, queue.now_ms, "after")
    (sent,) = await queue.send_entries([entry])
    assert isinstance(sent, SentEntry)
    assert sent.sequence > max(ledger.sent[queue.q.id].values(), default=0)
    ledger.sending[queue.q.id].add(message_id)
    ledger.sent[queue.q.id][message_id] = sent.sequence


@pytest.mark.needs(keeps_leases=True)
@pytest.mark.parametrize(
    "last", [line if line in IN_GATE else pytest.param(line, marks=pytest.mark.extended) for line in LAST_LINES]
)
async def test_killed_again_and_again(driver: Driver, clock: Clock, last: str) -> None:
    tag = f"-{uuid.uuid4()}"
    queues = Queues(tag)
    used = queues.used(driver)
    if last.endswith("fifo") and queues.fifo not in used:
        last = ""
    ledger = Ledger(queues)
    for round_ in range(ROUNDS):
        name = f"{last}.{round_}"
        _run_and_kill(driver, name, last, tag, ledger)
        async with driver.open() as engine:
            fifo = _queue(engine, clock, queues.fifo)
            await _check_messages(ledger, *[_queue(engine, clock, q) for q in (queues.standard, queues.moved)])
            if queues.fifo in used:
                await _check_fifo_messages(ledger, fifo)
                await _check_locks(ledger, fifo)
                await _check_dedup(ledger, fifo, name)
            clock.advance(2 * HIDE_MS)
            for q in used:
                queue = _queue(engine, clock, q)
                await _check_handles(ledger, queue)
                await _check_sequences(ledger, queue, name)
