"""Counts what a side keeps: messages acknowledged before `kill -9` that are there after a start on the same data."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import uvloop

from lab.bench.compare.rates import HANG_S
from lab.bench.compare.sides import Side
from lab.harness.server import Server
from lab.load.queues import BATCH, Client, accepted, handles_in, open_client
from lab.load.wire import LoadError, Script, run

CONNECTIONS = 16
QUEUE = "kept"
_NUMBER = re.compile(rb"kept (\d+)\.")


class Survival(NamedTuple):
    acknowledged: int
    there: int

    @property
    def all(self) -> bool:
        return self.there == self.acknowledged


def measure(side: Side, data: Path, messages: int, seed: int) -> Survival:
    """Kill all processes when so many sends were answered, while others are under way."""
    with side.running(data) as server:
        answered = uvloop.run(asyncio.wait_for(_send_until_killed(server, messages, seed), HANG_S))
    with side.running(data) as again:
        again = dataclasses.replace(again, credentials=server.credentials)
        found = uvloop.run(asyncio.wait_for(_receive_all(again, seed), HANG_S))
    return Survival(len(answered), len(answered & found))


async def _send_until_killed(server: Server, messages: int, seed: int) -> set[int]:
    client = await open_client(server, CONNECTIONS, seed, QUEUE)
    answered, numbers = set[int](), iter(range(messages + CONNECTIONS))

    def script() -> Script:
        for number in numbers:
            yield [], client.call("SendMessage", MessageBody=f"kept {number}. {client.body()}")
            answered.add(number)
            if len(answered) == messages:
                _kill(server)

    with suppress(LoadError):
        await run(client.lanes, [script() for _ in client.lanes])
    client.close()
    if len(answered) < messages:
        raise LoadError(f"only {len(answered)} of {messages} sends were answered")
    return answered


def _kill(server: Server) -> None:
    for pid in server.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def _receive_all(server: Server, seed: int) -> set[int]:
    """The numbers of the messages in the queue, which is made anew where it is gone."""
    client = await open_client(server, 1, seed, QUEUE)
    found: set[int] = set()
    while handles := await _receive(client, found):
        accepted(await client.lanes[0].ask(client.delete_batch(handles)))
    client.close()
    return found


async def _receive(client: Client, found: set[int]) -> list[bytes]:
    answer = await client.lanes[0].ask(client.call("ReceiveMessage", MaxNumberOfMessages=BATCH, WaitTimeSeconds=1))
    found.update(map(int, _NUMBER.findall(answer)))
    return handles_in(answer)
