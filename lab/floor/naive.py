"""The naive queue of seed 003: one row (now: partition) per queue, a column per message, and a lock for each pop.

A push inserts a column with a time-based id. A pop locks the row, reads the oldest columns, moves them to the row of
pending messages in one batch, and unlocks. A delete removes a pending column. A message that is not deleted stays
pending: the bench compares times, and returns nothing.

python -m lab.floor.naive --port 9400 --data DIRECTORY    (Cassandra where CNS_CASSANDRA… say)
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID, uuid1, uuid4

from cns_common.cassandra.connection import cassandra_address
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.configuration.settings import load_settings
from cns_common.errors import CnsError
from lab.floor.server import main
from lab.floor.store import Answer, Delivery, Handle

TABLES = (
    "CREATE TABLE IF NOT EXISTS naive_waiting (queue text, id timeuuid, body blob, PRIMARY KEY (queue, id))",
    "CREATE TABLE IF NOT EXISTS naive_pending (queue text, id timeuuid, body blob, PRIMARY KEY (queue, id))",
    "CREATE TABLE IF NOT EXISTS naive_locks (queue text PRIMARY KEY, owner text)",
)
PUSH = Statement("INSERT INTO naive_waiting (queue, id, body) VALUES (?, ?, ?)")
OLDEST = Statement("SELECT id, body FROM naive_waiting WHERE queue = ? LIMIT ?")
TAKE = Statement("DELETE FROM naive_waiting WHERE queue = ? AND id = ?")
HOLD = Statement("INSERT INTO naive_pending (queue, id, body) VALUES (?, ?, ?)")
DELETE = Statement("DELETE FROM naive_pending WHERE queue = ? AND id = ?")
LOCK = Statement("INSERT INTO naive_locks (queue, owner) VALUES (?, ?) IF NOT EXISTS USING TTL 30", idempotent=False)
UNLOCK = Statement("DELETE FROM naive_locks WHERE queue = ? IF owner = ?", idempotent=False)
PAUSE_S_MAX = 0.02
LOCK_TRIES = 2_000
EMPTY_PAUSE_S = 0.1
EXIT_FAILED = 1


class NaiveQueues:
    """Implements `floor.server.Backend`."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra
        self._loop = asyncio.get_running_loop()
        self._queues: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def create(self, answer: Answer, _name: str) -> None:
        answer(None)

    def send(self, answer: Answer, name: str, bodies: list[str]) -> None:
        self._start(self._send(answer, name, bodies))

    def receive(self, answer: Answer, name: str, n: int, _hide_ms: int, wait_s: float) -> None:
        self._start(self._receive(answer, name, n, wait_s))

    def delete(self, answer: Answer, handles: list[Handle]) -> None:
        self._start(self._delete(answer, handles))

    def close(self) -> None:
        self._start(self._cassandra.close())

    async def _send(self, answer: Answer, name: str, bodies: list[str]) -> None:
        ids = [uuid1() for _ in bodies]
        rows = [(PUSH, (name, key, body.encode())) for key, body in zip(ids, bodies, strict=True)]
        await self._cassandra.run_batch(rows, logged=False)
        answer(ids[0].int)

    async def _receive(self, answer: Answer, name: str, n: int, wait_s: float) -> None:
        until_s = self._loop.time() + wait_s
        taken = await self._pop(name, n)
        while not taken and self._loop.time() < until_s:
            await asyncio.sleep(EMPTY_PAUSE_S)
            taken = await self._pop(name, n)
        deliveries: list[Delivery] = [(key.int, 1, body.decode()) for key, body in taken]
        self._queues |= dict.fromkeys([key.int for key, _ in taken], name)
        answer(deliveries)

    async def _pop(self, name: str, n: int) -> list[tuple[UUID, bytes]]:
        owner = await self._lock(name)
        try:
            rows = await self._cassandra.run(OLDEST, name, n)
            moves = [part for key, body in rows for part in ((TAKE, (name, key)), (HOLD, (name, key, body)))]
            if moves:
                await self._cassandra.run_batch(moves, logged=False)
        finally:
            await self._unlock(name, owner)
        return [(key, body) for key, body in rows]

    async def _lock(self, name: str) -> str:
        for _ in range(LOCK_TRIES):
            owner = uuid4().hex
            try:
                if await self._cassandra.run_conditional(LOCK, name, owner):
                    return owner
            except CnsError:  # contention: whether it was taken is not known
                await self._unlock(name, owner)
            await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))
        raise RuntimeError(f"the row of {name} stayed locked")

    async def _unlock(self, name: str, owner: str) -> None:
        for _ in range(LOCK_TRIES):
            try:
                await self._cassandra.run_conditional(UNLOCK, name, owner)
            except CnsError:  # not known: repeated, it finds another owner or none
                await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))
            else:
                return

    async def _delete(self, answer: Answer, handles: list[Handle]) -> None:
        keys = [(self._queues.pop(number), UUID(int=number)) for number, _ in handles]
        await self._cassandra.run_each(DELETE, keys)
        answer(None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """End the process after an error: closed connections end the bench, an unanswered call would block it."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"naive: {error}", file=sys.stderr, flush=True)
            os._exit(EXIT_FAILED)


async def _open_queues(_data: Path) -> NaiveQueues:
    cassandra = await Cassandra.open(cassandra_address(load_settings()))
    for table in TABLES:
        await cassandra.run_schema(table)
    return NaiveQueues(cassandra)


if __name__ == "__main__":
    main(_open_queues)
