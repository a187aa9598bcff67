"""The section `waiting`: the cost of long polls that wait on many queues, and their wake-up times."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

import msgspec
import uvloop

from lab.bench.servers import service
from lab.bench.tables import bar_cell, table
from lab.harness.server import Server
from lab.load.polls import BYTES_PER_MIB, Polls
from lab.load.queues import Client, open_client
from lab.load.wire import LoadError
from lab.measure.figures import NS_PER_MS, US_PER_S, percentile

MAKERS = 16
QUEUE = "waiting-{}"
BEFORE_END_S = 0.5
CALM_S_MIN = 1.0
"""Minimum time to measure, between the moment when all polls wait and the end of the first poll."""
WAKE_S = 0.01
"""Upper estimate of a wake-up and the pause before it."""
GAP_MS = (2.0, 7.0)
POLL_INTERVAL_S = 0.1
RAMP_S_MAX = 60.0
ARRIVAL_S_MAX = 10.0
CPU_SHARE_MAX, ADDED_MIB_MAX, WAKE_P99_MS_MAX = 0.02, 100, 10


class Size(NamedTuple):
    polls: int
    queues: int
    wakes: int
    wait_s: int


FULL = Size(polls=10_000, queues=1_000, wakes=500, wait_s=20)


class Span(NamedTuple):
    """The server's use of a core in a time, and how many polls ended in it."""

    share: float
    seconds: float
    ends: int


class WaitingFigures(NamedTuple):
    """Wake-up times are sorted, and go from the send's first byte to the arrival."""

    size: Size
    calm: Span  # in which no poll ends
    added_mib: float
    calm_wakes_ms: list[float]
    ending: Span  # in which each poll ends once and begins again
    ending_wakes_ms: list[float]

    @property
    def end_us(self) -> float:
        """CPU per ended and restarted poll."""
        added = (self.ending.share - self.calm.share) * self.ending.seconds
        return added / max(self.ending.ends, 1) * US_PER_S


async def measure(server: Server, size: Size, seed: int) -> WaitingFigures:
    """Three phases, each as long as a poll: none ends; the ends are spread; an equal share ends each second."""
    client = await open_client(server, MAKERS, seed)
    names = [QUEUE.format(number) for number in range(size.queues)]
    await client.run(client.signer.call("CreateQueue", msgspec.json.encode({"QueueName": name})) for name in names)
    await client.use_queue(names[0])
    urls = [client.url.removesuffix(names[0]) + name for name in names]
    before_bytes, round_s = server.resident_bytes(), perf_counter_ns() / 1e9 + size.wait_s - BEFORE_END_S
    waiting = _WaitingPolls(client, Polls(client, size.wait_s), urls)
    await waiting.polls.begin(urls, size.polls)
    await _all_wait(server, size.polls)
    calm = await waiting.span(round_s - size.wakes * WAKE_S)
    added_bytes = server.resident_bytes() - before_bytes
    calm_wakes_ms = await waiting.wakes_ms(size.wakes)
    await waiting.span(round_s + size.wait_s)
    ending = await waiting.span(round_s + 2 * size.wait_s)
    ending_wakes_ms = await waiting.wakes_ms(size.wakes)
    waiting.polls.close()
    client.close()
    return WaitingFigures(size, calm, added_bytes / BYTES_PER_MIB, calm_wakes_ms, ending, ending_wakes_ms)


class _WaitingPolls:
    """Polls that wait, sends to random queues, and the times until a poll got them."""

    def __init__(self, client: Client, polls: Polls, urls: list[str]) -> None:
        self.polls = polls
        self._client = client
        self._urls = urls
        self._began_ns: list[int] = []

    async def span(self, until_s: float) -> Span:
        """From now until `until_s`."""
        server, answers = self._client.server, self.polls.answers
        before_s, began_ns = server.cpu_s(), perf_counter_ns()
        if until_s - began_ns / 1e9 < CALM_S_MIN:
            raise LoadError("it took too long until all waited: there is no time left to measure in")
        await asyncio.sleep(until_s - began_ns / 1e9)
        seconds = (perf_counter_ns() - began_ns) / 1e9
        return Span((server.cpu_s() - before_s) / seconds, seconds, self.polls.answers - answers)

    async def wakes_ms(self, n: int) -> list[float]:
        first, arrivals_ns = len(self._began_ns), self.polls.arrivals_ns
        for number in range(first, first + n):
            await asyncio.sleep(self._client.random.uniform(*GAP_MS) / 1000)
            message = {"QueueUrl": self._client.random.choice(self._urls), "MessageBody": f"wake {number}"}
            request = self._client.signer.call("SendMessage", msgspec.json.encode(message))
            self._began_ns.append(perf_counter_ns())
            await self._client.lanes[0].ask(request)
        async with asyncio.timeout(ARRIVAL_S_MAX):
            while len(arrivals_ns) < first + n:
                await asyncio.sleep(POLL_INTERVAL_S)
        return sorted((arrivals_ns[at] - self._began_ns[at]) / NS_PER_MS for at in range(first, first + n))


async def _all_wait(server: Server, polls: int) -> None:
    async with asyncio.timeout(RAMP_S_MAX):
        while await server.metric_total("long_polls_waiting") < polls:
            await asyncio.sleep(POLL_INTERVAL_S)


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    with service(scratch / "waiting") as server:
        return lines(uvloop.run(measure(server, FULL, seed)))


def lines(figures: WaitingFigures) -> list[str]:
    size, calm, ending = figures.size, figures.calm, figures.ending
    rows = [
        (
            f"CPU of one core while all wait ({calm.seconds:.0f} s in which none ends)",
            f"**{calm.share:.1%}**",
            bar_cell(f"< {CPU_SHARE_MAX:.0%}", met=calm.share < CPU_SHARE_MAX),
        ),
        (
            "resident memory added",
            f"**{figures.added_mib:.0f} MiB**",
            bar_cell(f"< {ADDED_MIB_MAX} MiB", met=figures.added_mib < ADDED_MIB_MAX),
        ),
        ("wake-up while none ends, p50, p99 ms", *_wakes(figures.calm_wakes_ms)),
        (
            f"CPU of one core while {ending.ends / ending.seconds:.0f} a second end empty and start again",
            f"{ending.share:.1%}",
            "",
        ),
        ("… CPU µs per ended and restarted poll", f"{figures.end_us:.0f}", ""),
        ("… wake-up meanwhile, p50, p99 ms", *_wakes(figures.ending_wakes_ms)),
    ]
    return [
        f"{size.polls:,} polls of {size.wait_s} s on {size.queues:,} queues. A wake-up is timed from the send's first"
        " byte to the arrival; each send goes to a random queue.",
        "",
        *table(("", "measured", "bar"), rows),
    ]


def _wakes(times_ms: list[float]) -> tuple[str, str]:
    """The cells of the wake-up times and of their limit."""
    p99_ms = percentile(times_ms, 99)
    bar = bar_cell(f"p99 ≤ {WAKE_P99_MS_MAX}", met=p99_ms <= WAKE_P99_MS_MAX)
    return f"{percentile(times_ms, 50):.1f}, **{p99_ms:.1f}**", bar
