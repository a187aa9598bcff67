"""The bench's end of the endpoints: their process, and the subscriptions that lead to them."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from bench.load.endpoints import BODY_FILE, Arrival, Begun, Kind, Told, kind_of, read_arrivals, url_of
from bench.load.topics import Topic, all_of, entries
from bench.load.wire import LoadError
from bench.measure.processes import ROOT, cpu_s

LINE_BYTES_MAX = 1 << 20
ANSWER_S_MAX = 60.0
POLL_INTERVAL_S = 0.05
PENDING_MAX = 2_000
"""Subscriptions that wait for their confirmation at a time: an account may not have many."""

_Line = TypeVar("_Line", bound=msgspec.Struct)


class Audience:
    """Endpoints, numbered by kind; use it within `audience`."""

    def __init__(self, process: Process, counts: dict[Kind, int], begun: Begun, out: Path) -> None:
        self._process = process
        self._begun = begun
        self._out = out
        self.kinds = [kind_of(counts, n) for n in range(sum(counts.values()))]

    def url(self, endpoint: int) -> str:
        return url_of(self._begun, self.kinds[endpoint], endpoint)

    def cpu_s(self) -> float:
        return cpu_s(self._process.pid)

    async def ail(self) -> None:
        await self._ask("ail")

    async def recover(self) -> None:
        await self._ask("recover")

    async def look(self) -> Told:
        return await self._ask("look")

    async def arrivals(self) -> list[Arrival]:
        await self._ask("save")
        return await asyncio.to_thread(read_arrivals, self._out)

    async def last_body(self) -> Path:
        await self._ask("save")
        return self._out / BODY_FILE

    async def _ask(self, command: str) -> Told:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        return await _read(self._process, Told)


@asynccontextmanager
async def audience(counts: dict[Kind, int], out: Path) -> AsyncIterator[Audience]:
    out.mkdir(parents=True, exist_ok=True)
    words = [f"{kind}={n}" for kind, n in counts.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.load.endpoints",
        str(out.absolute()),
        *words,
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        limit=LINE_BYTES_MAX,
    )
    try:
        yield Audience(process, counts, await _read(process, Begun), out)
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


class Wanted(NamedTuple):
    """A subscription to be made."""

    topic: str
    endpoint: int
    attributes: Mapping[str, str]


async def subscribe(caller: Topic, hearing: Audience, wanted: Sequence[Wanted]) -> None:
    """Make them and confirm each, as its endpoint was told to."""
    topics = {each.endpoint: each.topic for each in wanted}
    for at in range(0, len(wanted), PENDING_MAX):
        some = wanted[at : at + PENDING_MAX]
        await all_of(caller.client, (_subscribe(caller, hearing, each) for each in some))
        tokens = await _tokens(hearing, len(some))
        confirms = [
            caller.call("ConfirmSubscription", TopicArn=topics[endpoint], Token=token)
            for endpoint, token in tokens.items()
        ]
        await all_of(caller.client, confirms)


def _subscribe(caller: Topic, hearing: Audience, wanted: Wanted) -> bytes:
    attributes = entries("Attributes", ({"key": name, "value": text} for name, text in wanted.attributes.items()))
    endpoint = hearing.url(wanted.endpoint)
    return caller.call("Subscribe", TopicArn=wanted.topic, Protocol="http", Endpoint=endpoint, **attributes)


async def _tokens(hearing: Audience, n: int) -> dict[int, str]:
    """By endpoint: a confirmation may come twice."""
    found: dict[int, str] = {}
    async with asyncio.timeout(ANSWER_S_MAX):
        while len(found) < n:
            told = await hearing.look()
            found |= told.tokens
            if not told.tokens:
                await asyncio.sleep(POLL_INTERVAL_S)
    return found
