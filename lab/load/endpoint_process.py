"""Starts and controls the process of the HTTP endpoints, and subscribes them to topics."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from lab.harness.processes import ROOT
from lab.harness.usage import cpu_s
from lab.load.endpoints import BODY_FILE, Arrival, Kind, StartReport, Status, kind_of, read_arrivals, url_of
from lab.load.topics import Topic
from lab.load.wire import LoadError

LINE_BYTES_MAX = 1 << 20
ANSWER_S_MAX = 60.0
POLL_INTERVAL_S = 0.05
PENDING_MAX = 2_000
"""Unconfirmed subscriptions at a time: an account has a quota of them."""

_Line = TypeVar("_Line", bound=msgspec.Struct)


class EndpointProcess:
    """The running process; its endpoints are numbered kind after kind. Made by `endpoint_process`."""

    def __init__(self, process: Process, counts: dict[Kind, int], started: StartReport, out: Path) -> None:
        self._process = process
        self._started = started
        self._out = out
        self.kinds = [kind_of(counts, n) for n in range(sum(counts.values()))]

    def url(self, endpoint: int) -> str:
        return url_of(self._started, self.kinds[endpoint], endpoint)

    def cpu_s(self) -> float:
        return cpu_s(self._process.pid)

    async def fail(self) -> None:
        await self._ask("fail")

    async def recover(self) -> None:
        await self._ask("recover")

    async def status(self) -> Status:
        return await self._ask("status")

    async def arrivals(self) -> list[Arrival]:
        await self._ask("save")
        return await asyncio.to_thread(read_arrivals, self._out)

    async def last_body(self) -> Path:
        await self._ask("save")
        return self._out / BODY_FILE

    async def _ask(self, command: str) -> Status:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        return await _read(self._process, Status)


@asynccontextmanager
async def endpoint_process(counts: dict[Kind, int], out: Path) -> AsyncIterator[EndpointProcess]:
    out.mkdir(parents=True, exist_ok=True)
    words = [f"{kind}={n}" for kind, n in counts.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "lab.load.endpoints",
        str(out.absolute()),
        *words,
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        limit=LINE_BYTES_MAX,
    )
    try:
        yield EndpointProcess(process, counts, await _read(process, StartReport), out)
    finally:
        process.kill()
        await process.wait()


async def _read(process: Process, kind: type[_Line]) -> _Line:
    assert process.stdout is not None
    async with asyncio.timeout(ANSWER_S_MAX):
        line = await process.stdout.readline()
    if not line:
        raise LoadError("the process of the endpoints has ended")
    return msgspec.json.decode(line, type=kind)


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
