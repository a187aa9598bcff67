"""The process that `test_crash` kills: it works on an engine and reports what it begins and what was acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cns_common.clock import Clock
from cns_common.logs import set_up_logs
from cqs.engines.contract import Engine, Entry, Message, QueueRef, SentEntry, Settlement
from tests.conformance.drivers import DRIVERS, Driver

RETENTION_MS = 14 * 86_400_000
HIDE_MS = 3_600_000
GROUP_DIGITS = 1
"""Ids that differ only in this many last digits are a group: new groups, without a lock, keep coming."""


class Queues:
    """The queues of one test. `tag` distinguishes them from other tests' queues in the same store."""

    def __init__(self, tag: str) -> None:
        self.standard = QueueRef(f"standard{tag}", False, RETENTION_MS)
        self.moved = QueueRef(f"moved{tag}", False, RETENTION_MS)
        self.fifo = QueueRef(f"fifo{tag}", True, RETENTION_MS)

    def used(self, driver: Driver) -> list[QueueRef]:
        return [self.standard, self.fifo] if DRIVERS[driver.name].fifo else [self.standard]


class Report(msgspec.Struct, frozen=True, array_like=True):
    """One line on the pipe. `kind`: sending, sent, held, deleting, deleted, moving, moved."""

    kind: str
    queue: str
    id: str
    sequence: int = 0
    handle: bytes = b""
    group: str = ""


def body_of(message_id: str) -> bytes:
    return message_id.encode() * 20


class Reporter:
    """Writes reports. After `lines` of them it kills the process at the next line of the kind `last`."""

    def __init__(self, lines: int, last: str, tag: str) -> None:
        self._left = lines
        self._last = last + tag if last else ""

    def __call__(self, report: Report) -> None:
        os.write(1, msgspec.json.encode(report) + b"\n")
        self._left -= 1
        if self._left < 0 and self._last == f"{report.kind} {report.queue}":
            os.kill(os.getpid(), signal.SIGKILL)


class Worker:
    """Sends to and receives from one queue, forever."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        report: Reporter,
        q: QueueRef,
        moved: QueueRef,
        ids: Iterator[str],
        seed: str,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._say = report
        self._q = q
        self._moved = moved
        self._ids = ids
        self._dice = random.Random(seed)

    async def send(self) -> None:
        q, dice = self._q, self._dice
        while True:
            now_ms = self._clock.now_ms()
            entries = []
            for message_id in itertools.islice(self._ids, dice.choice([1, 1, 5])):
                group, dedup = (message_id[:-GROUP_DIGITS], message_id) if q.fifo else ("", "")
                entries.append(Entry(message_id, body_of(message_id), now_ms, now_ms, group, dedup))
            for entry in entries:
                self._say(Report("sending", q.id, entry.id))
            for sent in await self._engine.send(q, entries, now_ms):
                assert isinstance(sent, SentEntry)
                self._say(Report("sent", q.id, sent.id, sent.sequence))

    async def receive(self) -> None:
        q, dice = self._q, self._dice
        while True:
            now_ms = self._clock.now_ms()
            received = await self._engine.receive(q, dice.randrange(1, 11), now_ms + HIDE_MS, now_ms)
            for message in received.messages:
                self._say(Report("held", q.id, message.id, message.sequence, message.handle, message.group))
            for message in received.messages:
                match dice.randrange(3):
                    case 0:
                        await self._delete(message)
                    case 1 if not q.fifo:
                        await self._move(message)
            await asyncio.sleep(0)

    async def _delete(self, message: Message) -> None:
        self._say(Report("deleting", self._q.id, message.id))
        await self._engine.delete(self._q, [message.handle], self._clock.now_ms())
        self._say(Report("deleted", self._q.id, message.id))

    async def _move(self, message: Message) -> None:
        self._say(Report("moving", self._q.id, message.id))
        now_ms = self._clock.now_ms()
        moved = Entry(message.id, message.body, message.born_at_ms, now_ms)
        await self._engine.settle(Settlement(((self._q, message.handle),), ((self._moved, moved),)), now_ms)
        self._say(Report("moved", self._q.id, message.id))


async def _work(driver: Driver, seed: str, report: Reporter, queues: Queues) -> None:
    async with driver.open() as engine, asyncio.TaskGroup() as tasks:
        ids = (f"{seed}-{number}" for number in itertools.count())
        for number in range(4):
            for q in queues.used(driver):
                worker = Worker(engine, driver.clock, report, q, queues.moved, ids, f"{seed} {number} {q.id}")
                tasks.create_task(worker.send())
                tasks.create_task(worker.receive())


if __name__ == "__main__":
    name, directory, seed_text, lines_text, last_line, tag_text = sys.argv[1:]
    set_up_logs("info", "crash-child")  # standard output has the reports only
    voice = Reporter(int(lines_text), last_line, tag_text)
    clock = Clock(test=True)  # in a second round the test's own clock is ahead, which is no fault
    asyncio.run(_work(Driver(name, Path(directory), clock), seed_text, voice, Queues(tag_text)))
