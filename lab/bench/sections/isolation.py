"""The section `isolation`: whether failing endpoints delay healthy ones, and the outcome of every message.

Notifications are raw: a signature takes 0.69 ms of CPU, and signing a drained backlog beside the other work needs more
than two cores.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

import uvloop

from lab.bench.servers import QUIET_S_MAX, service
from lab.bench.tables import bar_cell, table
from lab.harness.server import Server
from lab.harness.usage import await_quiet
from lab.load.endpoint_process import EndpointProcess, SubscriptionRequest, endpoint_process, subscribe
from lab.load.endpoints import NUMBER, SLOW_S, Arrival, Kind
from lab.load.pacing import Schedule, planned_ns
from lab.load.queues import BATCH, handles_in, open_client
from lab.load.topics import RAW, Topic, first
from lab.load.wire import Script, run
from lab.measure.figures import NS_PER_MS, US_PER_S, Figures, Meter, cores, percentile
from lab.measure.memory import sampled_memory
from lab.measure.outcomes import AcceptedPublish, Outcomes, dropped_in, outcomes_of

CONNECTIONS = 64
MESSAGE_BYTES = 1024
DEAD_LETTERS = "dead-letters"
EMPTY_MAX = 5
POLL_INTERVAL_S = 0.25
RATIO_BAR, DRAIN_BAR_S = 2.0, 120.0
RUNS: dict[str, tuple[Kind, ...]] = {
    "all healthy": (),
    "half failing: refused, timing out, slow, 500": (Kind.REFUSED, Kind.HANGING, Kind.SLOW, Kind.FAILING),
    "half failing: all timing out": (Kind.HANGING,),
}
_MESSAGE_ID = re.compile(rb"<MessageId>([^<]+)</MessageId>")


class Size(NamedTuple):
    rate: float = 500.0  # publishes per second over all topics
    topics: int = 1_000
    seconds: float = 300.0
    retry_s: int = 0  # between attempts; 0: the service's default
    drain_s_max: float = 600.0


FULL = Size()
QUICK = Size(rate=100, topics=40, seconds=3, retry_s=1, drain_s_max=60)


def counts_of(kinds: Sequence[Kind], topics: int) -> dict[Kind, int]:
    """Endpoints by kind: the first half healthy, the rest in equal parts."""
    healthy = topics // 2 if kinds else topics
    dead = topics - healthy
    parts = {kind: dead // len(kinds) + (n < dead % len(kinds)) for n, kind in enumerate(kinds)}
    return {Kind.HEALTHY: healthy} | parts


def topics_in_turn(publishes: int, topics: int, seed: int) -> list[int]:
    """The topic of each publish: all equally often, in a random order."""
    order = Random(seed).sample(range(topics), topics)
    return [order[number % topics] for number in range(publishes)]


# -- a run ------------------------------------------------------------------------------------------------------------


class _Publishes:
    """Publishes of one run, each with a number, on topics with one endpoint each; and what becomes of them."""

    def __init__(self, caller: Topic, endpoints: EndpointProcess, size: Size, seed: int) -> None:
        self._caller = caller
        self._client = caller.client
        self._endpoints = endpoints
        self._size = size
        self._topics: list[str] = []
        self.schedule = Schedule(planned_ns(size.rate, size.seconds))
        self._order = topics_in_turn(len(self.schedule), size.topics, seed)
        self._padding = caller.client.body()
        self.accepted: dict[int, AcceptedPublish] = {}

    async def set_up(self) -> None:
        """Make topics and subscriptions. Every second subscription has a dead-letter queue, the others have none."""
        for number in range(self._size.topics):
            await self._caller.open(f"topic-{number}")
            self._topics.append(self._caller.arn)
        await self._caller.make_queues([DEAD_LETTERS])
        await self._client.use_queue(DEAD_LETTERS)
        plain, retry_s = dict(RAW), self._size.retry_s
        if retry_s:
            policy = {"minDelayTarget": retry_s, "maxDelayTarget": retry_s, "numRetries": 3}
            plain["DeliveryPolicy"] = json.dumps({"healthyRetryPolicy": policy})
        redrive = json.dumps({"deadLetterTargetArn": self._caller.queue_arn(DEAD_LETTERS)})
        attributes = (plain, plain | {"RedrivePolicy": redrive})
        requests = [SubscriptionRequest(topic, n, attributes[n % 2]) for n, topic in enumerate(self._topics)]
        await subscribe(self._caller, self._endpoints, requests)
        await self._client.connect_anew()

    async def publish(self) -> None:
        await self.schedule.run(self._client.lanes, self._request, self._answered)

    def _request(self, number: int) -> bytes:
        message = f"number={number} {self._padding}"[:MESSAGE_BYTES]
        return self._caller.call("Publish", TopicArn=self._topics[self._order[number]], Message=message)

    def _answered(self, number: int, answer: bytes) -> None:
        self.accepted[number] = AcceptedPublish(first(_MESSAGE_ID, answer), self._order[number])

    async def backlog(self) -> int:
        """Messages without an outcome. A message that was delivered and also dropped counts as two outcomes."""
        dead_lettered, dropped = [
            await self._client.server.metric_total(f"notifications_{end}_total") for end in ("dead_lettered", "dropped")
        ]
        return len(self.accepted) - (await self._endpoints.status()).accepted - dead_lettered - dropped

    async def drain(self) -> float | None:
        """Seconds until there is no backlog; None after `drain_s_max`."""
        began_s = perf_counter()
        while perf_counter() - began_s < self._size.drain_s_max:
            if await self.backlog() <= 0:
                return perf_counter() - began_s
            await asyncio.sleep(POLL_INTERVAL_S)
        return None

    async def dead_letters(self) -> list[int]:
        """The numbers of all dead letters. A receive may be empty although messages are left."""
        found: list[int] = []

        def script() -> Script:
            empty = 0
            while empty < EMPTY_MAX:
                answer = yield [], self._client.receive(BATCH)
                found.extend(int(number) for number in NUMBER.findall(answer))
                empty = 0 if (handles := handles_in(answer)) else empty + 1
                if handles:
                    yield [], self._client.delete_batch(handles)

        await self._client.connect_anew()
        await run(self._client.lanes, [script() for _ in self._client.lanes])
        self._client.close()
        return found

    def times_ms(self, arrivals: Sequence[Arrival]) -> list[float]:
        """Sorted delivery times of the healthy half's messages, from the planned start of a publish to the first
        arrival of its message."""
        first_ns: dict[int, int] = {}
        for arrival in arrivals:
            if arrival.endpoint < self._size.topics // 2:
                first_ns.setdefault(arrival.number, arrival.at_ns)
        return sorted((at_ns - self.schedule.due_ns(number)) / NS_PER_MS for number, at_ns in first_ns.items()) or [0.0]


class Isolation(NamedTuple):
    """The result of a run."""

    run: str
    publishes: _Publishes
    arrivals: list[Arrival]
    dead_letters: list[int]
    backlog: int  # messages without an outcome when the endpoints recover
    drained_s: float | None  # None: not drained within `drain_s_max`
    memory: Mapping[str, Sequence[float]]
    used: Figures  # while publishing
    endpoints_share: float  # of one core
    drops: Sequence[str] = ()

    @property
    def times_ms(self) -> list[float]:
        return self.publishes.times_ms(self.arrivals)

    @property
    def outcomes(self) -> Outcomes:
        return outcomes_of(self.publishes.accepted, self.arrivals, self.dead_letters, self.drops)

    @property
    def failures(self) -> list[str]:
        """The failures that do not depend on the machine's speed."""
        lost = [] if self.outcomes.complete else [f"{self.run}: {self.outcomes}"]
        return [*lost, *([f"{self.run}: not drained"] if self.drained_s is None else [])]


async def measure(server: Server, name: str, size: Size, seed: int) -> Isolation:
    """Set up, publish, recover, drain. The drops are known when the server has stopped."""
    async with endpoint_process(counts_of(RUNS[name], size.topics)) as endpoints:
        topic = Topic(await open_client(server, CONNECTIONS, seed))
        publishes = _Publishes(topic, endpoints, size, seed)
        await publishes.set_up()
        await endpoints.fail()
        async with sampled_memory(server) as memory:
            meter, endpoints_s = Meter(server), endpoints.cpu_s()
            await publishes.publish()
            used = meter.read(name, CONNECTIONS, len(publishes.schedule), [])
            share = (endpoints.cpu_s() - endpoints_s) / used.seconds
            backlog = await publishes.backlog()
            await endpoints.recover()
            drained_s = await publishes.drain()
        arrivals, dead_letters = await endpoints.arrivals(), await publishes.dead_letters()
    return Isolation(name, publishes, arrivals, dead_letters, backlog, drained_s, memory, used, share)


def runs(scratch: Path, size: Size, seed: int, names: Sequence[str], quiet_s: float) -> list[Isolation]:
    """Each run on its own service, started when the machine is idle, at the latest after `quiet_s`."""
    found = []
    for place, name in enumerate(names):
        data = scratch / f"isolation-{place}"
        with service(data) as server:
            await_quiet(quiet_s)
            measured = uvloop.run(measure(server, name, size, seed))
        found.append(measured._replace(drops=dropped_in(data / "store" / "events")))
        print(f"{name}: {found[-1].outcomes}", flush=True)
    return found


# -- the section ------------------------------------------------------------------------------------------------------


def quick(scratch: Path, seed: int) -> dict[str, str]:
    """One small run with all kinds of failing endpoints."""
    found = runs(scratch, QUICK, seed, tuple(RUNS)[1:2], quiet_s=0)
    print("\n".join(lines(found, QUICK)))
    return {"isolation": "; ".join(failure for one in found for failure in one.failures)}


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    return lines(runs(scratch, FULL, seed, tuple(RUNS), QUIET_S_MAX), FULL)


def lines(found: Sequence[Isolation], size: Size) -> list[str]:
    calm_ms = percentile(found[0].times_ms, 99)
    return [
        f"{size.rate:.0f} publishes a second of 1 KiB over {size.topics:,} topics, each with one HTTP endpoint of its"
        f" own, for {size.seconds:.0f} s, raw. Slow is {SLOW_S:.0f} s. Times are those of the half of the topics whose"
        " endpoints stay healthy in all runs, from a publish's planned start to its arrival, including the lateness of"
        " the generator's own timers. At the end the failing ones recover.",
        "",
        *table(
            (
                *("run", "healthy endpoints: p50, p99, max ms", "p99 : first run's", "bar"),
                *("generator's lateness p99, ms", "backlog at recovery", "drained after, s", "bar"),
            ),
            [_healthy(one, calm_ms) for one in found],
        ),
        "",
        *table(
            (
                *("run", "accepted", "delivered", "dead-lettered", "dropped (counted)", "**lost**"),
                *("topics with losses", "duplicates", "misdelivered"),
            ),
            [_ended(one) for one in found],
        ),
        "",
        *table(
            ("run", "process", "resident MiB: before, half-way, peak, after draining"),
            [(one.run, name, memory_use(samples)) for one in found for name, samples in one.memory.items()],
        ),
        "",
        *table(
            ("run", "CPU of one core while publishing: service, endpoints, generator", "others' CPU"),
            [_cpu(one) for one in found],
        ),
    ]


def _healthy(one: Isolation, calm_ms: float) -> Sequence[object]:
    times_ms, bar, drain_bar = one.times_ms, "", ""
    p99_ms = percentile(times_ms, 99)
    ratio = p99_ms / max(calm_ms, 0.001)
    if RUNS[one.run]:
        bar = bar_cell(f"≤ {RATIO_BAR:.0f}", met=ratio <= RATIO_BAR)
        drain_bar = bar_cell(f"≤ {DRAIN_BAR_S:.0f}", met=one.drained_s is not None and one.drained_s <= DRAIN_BAR_S)
    drained = "not drained" if one.drained_s is None else f"{one.drained_s:.1f}"
    times = f"{percentile(times_ms, 50):,.1f}, **{p99_ms:,.1f}**, {times_ms[-1]:,.1f}"
    late_ms = percentile(sorted(one.publishes.schedule.late_ns), 99) / NS_PER_MS
    ratio_cell = f"**{ratio:.2f}**"
    return one.run, times, ratio_cell, bar, f"{late_ms:.2f}", f"{one.backlog:,}", f"**{drained}**", drain_bar


def memory_use(mib: Sequence[float]) -> str:
    return f"{mib[0]:.0f}, {mib[len(mib) // 2]:.0f}, **{max(mib):.0f}**, {mib[-1]:.0f}"


def _ended(one: Isolation) -> Sequence[object]:
    ends = one.outcomes
    counts = [f"{n:,}" for n in (ends.accepted, ends.delivered, ends.dead_lettered, ends.dropped)]
    lost = f"**{sum(ends.lost.values()):,}**"
    return one.run, *counts, lost, len(ends.lost), f"{ends.repeated:,}", ends.misdelivered


def _cpu(one: Isolation) -> Sequence[object]:
    used = one.used
    service, generator = (us / US_PER_S * used.units / used.seconds for us in (used.server_us, used.generator_us))
    others = max(used.others_share - one.endpoints_share / cores(), 0.0)
    return one.run, f"{service:.0%}, {one.endpoints_share:.0%}, {generator:.0%}", f"{others:.0%}"
