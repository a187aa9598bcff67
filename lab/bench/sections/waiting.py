"""The section `waiting`: the cost of long polls that wait on many queues, and their wake-up times."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple, TypeVar

import msgspec
import uvloop

from lab.bench.sections.runs import SERVICE, served
from lab.harness.processes import ROOT
from lab.harness.server import Server
from lab.load.poller import QUEUE, StartReport, Status
from lab.load.polls import BYTES_PER_MIB
from lab.load.queues import Client
from lab.load.wire import LoadError, Script, connect, run
from lab.measure.figures import NS_PER_MS, US_PER_S, bar_cell, percentile
from lab.measure.metrics import metric_total

MAKERS = 16
BEFORE_END_S = 0.5
CALM_S_MIN = 1.0
"""Minimum time to measure, between the moment when all polls wait and the end of the first poll."""
WAKE_S = 0.01
"""Upper estimate of a wake-up and the pause before it."""
GAP_MS = (2.0, 7.0)
POLL_INTERVAL_S = 0.1
RAMP_S_MAX = 60.0
ARRIVAL_S_MAX = 10.0
LINE_BYTES_MAX = 1 << 20
CPU_SHARE_MAX, ADDED_MIB_MAX, WAKE_P99_MS_MAX = 0.02, 100, 10

_Line = TypeVar("_Line", bound=msgspec.Struct)


class Size(msgspec.Struct, frozen=True, kw_only=True):
    polls: int
    queues: int
    wakes: int
    wait_s: int


FULL = Size(polls=10_000, queues=1_000, wakes=500, wait_s=20)


class WaitingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Wake-up times are sorted, and go from the send's first byte to the arrival."""

    polls: int
    queues: int
    wait_s: int
    calm_s: float
    cpu_share: float  # of one core, while no poll ends
    added_mib: float
    calm_wakes_ms: list[float]
    ends_per_s: float
    ending_cpu_share: float  # while each poll ends once and begins again
    end_us: float  # CPU per ended and restarted poll
    ending_wakes_ms: list[float]


async def measure(server: Server, size: Size, seed: int) -> WaitingFigures:
    """Three phases, each as long as a poll: none ends; the ends are spread; an equal share ends each second."""
    client = Client(server, await connect(server.port, MAKERS), seed)
    urls = await _make_queues(client, size.queues)
    before_bytes = server.resident_bytes()
    async with _poller(server, size) as poller:
        wakes = _WakeUps(client, poller, urls)
        round_s = (await _read(poller, StartReport)).first_poll_ns / 1e9 + size.wait_s - BEFORE_END_S
        await _all_wait(server, size.polls)
        calm = await _cpu_until(server, round_s - size.wakes * WAKE_S)
        added_bytes = server.resident_bytes() - before_bytes
        calm_wakes_ms = await wakes.times_ms(size.wakes)
        await _cpu_until(server, round_s + size.wait_s)
        answers = (await _ask(poller)).answers
        ending = await _cpu_until(server, round_s + 2 * size.wait_s)
        ends = (await _ask(poller)).answers - answers
        ending_wakes_ms = await wakes.times_ms(size.wakes)
    client.close()
    return WaitingFigures(
        polls=size.polls,
        queues=size.queues,
        wait_s=size.wait_s,
        calm_s=round(calm.seconds, 1),
        cpu_share=round(calm.share, 4),
        added_mib=round(added_bytes / BYTES_PER_MIB, 1),
        calm_wakes_ms=calm_wakes_ms,
        ends_per_s=round(ends / ending.seconds, 1),
        ending_cpu_share=round(ending.share, 4),
        end_us=round((ending.share - calm.share) * ending.seconds / max(ends, 1) * US_PER_S, 1),
        ending_wakes_ms=ending_wakes_ms,
    )


async def _make_queues(client: Client, n: int) -> list[str]:
    names = [QUEUE.format(number) for number in range(n)]
    left = iter(names)

    def script() -> Script:
        for name in left:
            yield [], client.signer.call("CreateQueue", msgspec.json.encode({"QueueName": name}))

    await run(client.lanes, [script() for _ in client.lanes])
    await client.use_queue(names[0])
    return [client.url.removesuffix(names[0]) + name for name in names]


class _WakeUps:
    """Sends to random queues, and the times until a poll got them."""

    def __init__(self, client: Client, poller: Process, urls: list[str]) -> None:
        self._client = client
        self._poller = poller
        self._urls = urls
        self._began_ns: list[int] = []

    async def times_ms(self, n: int) -> list[float]:
        first = len(self._began_ns)
        for number in range(first, first + n):
            await asyncio.sleep(self._client.random.uniform(*GAP_MS) / 1000)
            message = {"QueueUrl": self._client.random.choice(self._urls), "MessageBody": f"wake {number}"}
            request = self._client.signer.call("SendMessage", msgspec.json.encode(message))
            self._began_ns.append(perf_counter_ns())
            await self._client.lanes[0].ask(request)
        arrivals_ns = await self._arrivals_ns()
        times_ns = [arrivals_ns[number] - self._began_ns[number] for number in range(first, first + n)]
        return sorted(round(ns / NS_PER_MS, 3) for ns in times_ns)

    async def _arrivals_ns(self) -> dict[int, int]:
        async with asyncio.timeout(ARRIVAL_S_MAX):
            while len(arrivals_ns := (await _ask(self._poller)).arrivals_ns) < len(self._began_ns):
                await asyncio.sleep(POLL_INTERVAL_S)
        return arrivals_ns


class _Span(NamedTuple):
    share: float  # of one core
    seconds: float


async def _cpu_until(server: Server, until_s: float) -> _Span:
    """The server's CPU use from now until `until_s`."""
    before_s, began_ns = server.cpu_s(), perf_counter_ns()
    if until_s - began_ns / 1e9 < CALM_S_MIN:
        raise LoadError("it took too long until all waited: there is no time left to measure in")
    await asyncio.sleep(until_s - began_ns / 1e9)
    seconds = (perf_counter_ns() - began_ns) / 1e9
    return _Span((server.cpu_s() - before_s) / seconds, seconds)


async def _all_wait(server: Server, polls: int) -> None:
    async with asyncio.timeout(RAMP_S_MAX):
        while await metric_total(server, "long_polls_waiting") < polls:  # the connections are in another process
            await asyncio.sleep(POLL_INTERVAL_S)


# -- the process that polls -------------------------------------------------------------------------------------------


@asynccontextmanager
async def _poller(server: Server, size: Size) -> AsyncIterator[Process]:
    keys = {"AWS_ACCESS_KEY_ID": server.credentials.key_id, "AWS_SECRET_ACCESS_KEY": server.credentials.secret}
    arguments = {"--port": server.port, "--queues": size.queues, "--polls": size.polls, "--wait": size.wait_s}
    words = [str(word) for argument in arguments.items() for word in argument]
    poller = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "lab.load.poller",
        *words,
        cwd=ROOT,
        env={**os.environ, **keys},
        stdin=PIPE,
        stdout=PIPE,
        limit=LINE_BYTES_MAX,
    )
    try:
        yield poller
    finally:
        poller.kill()
        await poller.wait()


async def _ask(poller: Process) -> Status:
    assert poller.stdin is not None
    poller.stdin.write(b"\n")
    return await _read(poller, Status)


async def _read(poller: Process, kind: type[_Line]) -> _Line:
    assert poller.stdout is not None
    async with asyncio.timeout(RAMP_S_MAX):
        line = await poller.stdout.readline()
    if not line:
        raise LoadError("the process that polls has ended")
    return msgspec.json.decode(line, type=kind)


# -- the section ------------------------------------------------------------------------------------------------------


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    with served("service", SERVICE, scratch / "waiting") as server:
        return lines(uvloop.run(measure(server, FULL, seed)))


def lines(figures: WaitingFigures) -> list[str]:
    return [
        f"{figures.polls:,} polls of {figures.wait_s} s on {figures.queues:,} queues, from a process of their own."
        " A wake-up is timed from the send's first byte to the arrival; each send goes to a random queue.",
        "",
        "| | measured | bar |",
        "|---|---|---|",
        f"| CPU of one core while all wait ({figures.calm_s:.0f} s in which none ends) |"
        f" **{figures.cpu_share:.1%}** | {bar_cell(f'< {CPU_SHARE_MAX:.0%}', met=figures.cpu_share < CPU_SHARE_MAX)} |",
        f"| resident memory added | **{figures.added_mib:.0f} MiB** |"
        f" {bar_cell(f'< {ADDED_MIB_MAX} MiB', met=figures.added_mib < ADDED_MIB_MAX)} |",
        f"| wake-up while none ends, p50, p99 ms | {_wakes(figures.calm_wakes_ms)} |",
        f"| CPU of one core while {figures.ends_per_s:.0f} a second end empty and start again |"
        f" {figures.ending_cpu_share:.1%} | |",
        f"| … CPU µs per ended and restarted poll | {figures.end_us:.0f} | |",
        f"| … wake-up meanwhile, p50, p99 ms | {_wakes(figures.ending_wakes_ms)} |",
    ]


def _wakes(times_ms: list[float]) -> str:
    """The cells of the wake-up times and of their limit."""
    p99_ms = percentile(times_ms, 99)
    bar = bar_cell(f"p99 ≤ {WAKE_P99_MS_MAX}", met=p99_ms <= WAKE_P99_MS_MAX)
    return f"{percentile(times_ms, 50):.1f}, **{p99_ms:.1f}** | {bar}"
