"""The process that `test_crash` kills: it works on an engine, and says what it begins and what was answered."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from common.clock import Clock
from cqs.engines.contract import Engine, Entry, Message, QueueRef, Sent, Settlement
from tests.conformance.drivers import Driver

RETENTION_MS = 14 * 86_400_000
HIDE_MS = 3_600_000
STANDARD = QueueRef("standard", False, RETENTION_MS)
MOVED = QueueRef("moved", False, RETENTION_MS)
FIFO = QueueRef("fifo", True, RETENTION_MS)
GROUPS = 60


class Said(msgspec.Struct, frozen=True, array_like=True):
    """One line on the pipe. `kind`: sending, sent, held, deleting, deleted, moving, moved."""

    kind: str
    queue: str
    id: str
    sequence: int = 0
    handle: bytes = b""
    group: str = ""


def body_of(message_id: str) -> bytes:
    return message_id.encode() * 20


def _say(said: Said) -> None:
    os.write(1, msgspec.json.encode(said) + b"\n")


async def _send(engine: Engine, clock: Clock, q: QueueRef, ids: Iterator[str], dice: random.Random) -> None:
    while True:
        now_ms = clock.now_ms()
        entries = []
        for message_id in itertools.islice(ids, dice.choice([1, 1, 5])):
            group, dedup = (f"{dice.randrange(GROUPS)}", message_id) if q.fifo else ("", "")
            entries.append(Entry(message_id, body_of(message_id), now_ms, now_ms, group, dedup))
        for entry in entries:
            _say(Said("sending", q.id, entry.id))
        for sent in await engine.send(q, entries, now_ms):
            assert isinstance(sent, Sent)
            _say(Said("sent", q.id, sent.id, sent.sequence))


async def _receive(engine: Engine, clock: Clock, q: QueueRef, dice: random.Random) -> None:
    while True:
        now_ms = clock.now_ms()
        received = await engine.receive(q, dice.randrange(1, 11), now_ms + HIDE_MS, now_ms)
        for message in received.messages:
            _say(Said("held", q.id, message.id, message.sequence, message.handle, message.group))
        for message in received.messages:
            match dice.randrange(3):
                case 0:
                    await _delete(engine, q, message, clock.now_ms())
                case 1 if not q.fifo:
                    await _move(engine, message, clock.now_ms())
        await asyncio.sleep(0)


async def _delete(engine: Engine, q: QueueRef, message: Message, now_ms: int) -> None:
    _say(Said("deleting", q.id, message.id))
    await engine.delete(q, [message.handle], now_ms)
    _say(Said("deleted", q.id, message.id))


async def _move(engine: Engine, message: Message, now_ms: int) -> None:
    _say(Said("moving", STANDARD.id, message.id))
    moved = Entry(message.id, message.body, message.born_at_ms, now_ms)
    await engine.settle(Settlement(((STANDARD, message.handle),), ((MOVED, moved),)), now_ms)
    _say(Said("moved", STANDARD.id, message.id))


async def _work(driver: Driver, seed: str) -> None:
    async with driver.open() as engine:
        ids = (f"{seed}-{number}" for number in itertools.count())
        async with asyncio.TaskGroup() as tasks:
            for worker in range(4):
                for q in (STANDARD, FIFO):
                    dice = random.Random(f"{seed} {worker} {q.id}")
                    tasks.create_task(_send(engine, driver.clock, q, ids, dice))
                    tasks.create_task(_receive(engine, driver.clock, q, dice))


if __name__ == "__main__":
    name, directory, seed_text = sys.argv[1:]
    asyncio.run(_work(Driver(name, Path(directory), Clock()), seed_text))
