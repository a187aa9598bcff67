"""A process that uses one queue on a ring until it is killed or its standard input ends, and reports what it begins and
what was acknowledged. Some answers of Cassandra are lost on their way to it."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

import msgspec

from cns_common.cassandra.session import Row
from cns_common.errors import CnsError, OutcomeUnknown
from cns_common.logs import set_up_logs
from cqs.engines.contract import Entry, Message, Outcome, QueueRef
from lab.harness.ring_engine import Place, Process, process

RETENTION_MS = 14 * 86_400_000
HIDE_MS = 8_000
SENDERS, RECEIVERS = 3, 3
LOST_ANSWERS = 0.02
"""The share of Cassandra's answers that are lost."""
PAUSE_S = 0.05


class Report(msgspec.Struct, frozen=True, array_like=True):
    """One line. `kind`: sending, sent, held, deleting, deleted, or failed. A message that is held was received by a
    call from `began_ms` on, and is hidden until `until_ms`: times of the machine's monotonic clock."""

    kind: str
    id: str
    at_ms: int
    began_ms: int = 0
    until_ms: int = 0


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def say(kind: str, message_id: str, began_ms: int = 0, until_ms: int = 0) -> None:
    os.write(1, msgspec.json.encode(Report(kind, message_id, now_ms(), began_ms, until_ms)) + b"\n")


class Worker:
    def __init__(self, user: Process, q: QueueRef, name: str, dice: random.Random) -> None:
        self._user = user
        self._q = q
        self._name = name
        self._dice = dice
        self._sent = 0

    async def send(self) -> None:
        while True:
            at_ms = self._user.clock.now_ms()
            entries = []
            for _ in range(self._dice.choice([1, 1, 5])):
                self._sent += 1
                message_id = f"{self._name}-{self._sent}"
                entries.append(Entry(message_id, message_id.encode(), at_ms, at_ms))
                say("sending", message_id)
            try:
                await self._user.engine.send(self._q, entries, at_ms)
            except CnsError:
                say("failed", "send")
                await asyncio.sleep(PAUSE_S)
                continue
            for entry in entries:
                say("sent", entry.id)

    async def receive(self) -> None:
        while True:
            at_ms, began_ms = self._user.clock.now_ms(), now_ms()
            try:
                received = await self._user.engine.receive(self._q, self._dice.randrange(1, 11), at_ms + HIDE_MS, at_ms)
            except CnsError:
                say("failed", "receive")
                await asyncio.sleep(PAUSE_S)
                continue
            for message in received.messages:
                say("held", message.id, began_ms, began_ms + HIDE_MS)
            some = [message for message in received.messages if self._dice.random() < 0.7]
            if some:
                await self._delete(some)
            else:
                await asyncio.sleep(PAUSE_S)

    async def _delete(self, messages: list[Message]) -> None:
        for message in messages:
            say("deleting", message.id)
        try:
            outcomes = await self._user.engine.delete(
                self._q, [message.handle for message in messages], self._user.clock.now_ms()
            )
        except CnsError:
            say("failed", "delete")
            return
        for message, outcome in zip(messages, outcomes, strict=True):
            if outcome is Outcome.DONE:
                say("deleted", message.id)


def lose_answers(user: Process, dice: random.Random) -> None:
    """Statements have their effect, and the caller does not learn of it."""
    cassandra = user.cassandra
    for name in ("_run", "_run_once"):
        setattr(cassandra, name, _unreliable(getattr(cassandra, name), dice))


def _unreliable(run: Any, dice: random.Random) -> Any:
    async def answer(*statement: Any) -> list[Row]:
        rows: list[Row] = await run(*statement)
        if dice.random() < LOST_ANSWERS:
            raise OutcomeUnknown("the answer is lost")
        return rows

    return answer


async def _until_input_ends() -> None:
    await asyncio.to_thread(sys.stdin.read)


async def _work(place: Place, queue: str, seed: str, name: str) -> None:
    dice = random.Random(f"{seed} {name}")
    async with process(place) as user:
        lose_answers(user, dice)
        worker = Worker(user, QueueRef(queue, False, RETENTION_MS), name, dice)
        steps = [worker.send() for _ in range(SENDERS)] + [worker.receive() for _ in range(RECEIVERS)]
        tasks = [asyncio.create_task(step) for step in steps]
        await asyncio.wait({*tasks, asyncio.create_task(_until_input_ends())}, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()


if __name__ == "__main__":
    set_up_logs("error", "ring-child")  # standard output has the reports only
    *place_words, queue_id, seed_of_round, name_of_process = sys.argv[1:]
    asyncio.run(_work(Place.of_words(*place_words), queue_id, seed_of_round, name_of_process))
