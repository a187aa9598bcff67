"""Starts and controls the process of the HTTP endpoints, and subscribes them to topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from lab.harness.usage import cpu_s
from lab.load.endpoints import HOST, Arrival, Command, Kind, Status, serve
from lab.load.topics import Topic

ANSWER_S_MAX = 60.0
POLL_INTERVAL_S = 0.05
PENDING_MAX = 2_000
"""Unconfirmed subscriptions at a time: an account has a quota of them."""


class EndpointProcess:
    """The running process; its endpoints are numbered kind after kind. Made by `endpoint_process`."""

    def __init__(self, pid: int, counts: dict[Kind, int], pipe: Connection) -> None:
        self._pid = pid
        self._pipe = pipe
        self._ports: dict[Kind, list[int]] = dict(zip(counts, pipe.recv(), strict=True))
        self.kinds = [kind for kind, n in counts.items() for _ in range(n)]

    def url(self, endpoint: int) -> str:
        ports = self._ports[self.kinds[endpoint]]
        return f"http://{HOST}:{ports[endpoint % len(ports)]}/e/{endpoint}"

    def cpu_s(self) -> float:
        return cpu_s(self._pid)

    async def fail(self) -> None:
        await self._ask(Command.FAIL)

    async def recover(self) -> None:
        await self._ask(Command.RECOVER)

    async def status(self) -> Status:
        status: Status = await self._ask(Command.STATUS)
        return status

    async def arrivals(self) -> list[Arrival]:
        numbers = await self._ask(Command.ARRIVALS)
        return [Arrival(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]

    async def last_body(self) -> bytes:
        return bytes(await self._ask(Command.BODY))

    async def _ask(self, command: Command) -> Any:
        """The answer. Raises EOFError if the process has ended."""
        self._pipe.send(command)
        async with asyncio.timeout(ANSWER_S_MAX):
            return await asyncio.to_thread(self._pipe.recv)


@asynccontextmanager
async def endpoint_process(counts: dict[Kind, int]) -> AsyncIterator[EndpointProcess]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(list(counts), theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield EndpointProcess(process.pid or 0, counts, ours)
    finally:
        process.kill()
        process.join()


# -- subscriptions ----------------------------------------------------------------------------------------------------


class SubscriptionRequest(NamedTuple):
    """A subscription to make; `endpoint` is the endpoint's number."""

    topic: str
    endpoint: int
    attributes: Mapping[str, str]


async def subscribe(caller: Topic, endpoints: EndpointProcess, requests: Sequence[SubscriptionRequest]) -> None:
    """Subscribe the endpoints and confirm each subscription with the token its endpoint got."""
    topics = {each.endpoint: each.topic for each in requests}
    for at in range(0, len(requests), PENDING_MAX):
        some = requests[at : at + PENDING_MAX]
        subscribing = [
            caller.subscribe("http", endpoints.url(each.endpoint), each.attributes, topic=each.topic) for each in some
        ]
        await caller.client.run(subscribing)
        tokens = await _tokens(endpoints, len(some))
        await caller.client.run([caller.confirm(token, topics[endpoint]) for endpoint, token in tokens.items()])


async def _tokens(endpoints: EndpointProcess, n: int) -> dict[int, str]:
    """Endpoint number → token. Waits for `n` endpoints: a confirmation request may come twice."""
    found: dict[int, str] = {}
    async with asyncio.timeout(ANSWER_S_MAX):
        while len(found) < n:
            status = await endpoints.status()
            found |= status.tokens
            if not status.tokens:
                await asyncio.sleep(POLL_INTERVAL_S)
    return found
