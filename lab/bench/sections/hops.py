"""The section `hops`: the time of each hop of a publish in the cluster form, and what 1,000 notifications cost.

One API process and one worker on Cassandra and Redis; HTTP endpoints in this process, which answer at once. A topic
with at most 100 subscriptions goes past the producers: its job is for the consumers at once. The hops follow one
another: their means add up to the time from the publish to the endpoint's answer. Means come from the service's
histograms; the time in the notification ties them to this process's clock.
"""

from __future__ import annotations

import asyncio
import re
import statistics
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import NamedTuple

import psutil
import uvloop

from lab.bench.servers import service
from lab.bench.site import store
from lab.bench.tables import joined, table
from lab.harness import servers
from lab.harness.cluster import settings_in
from lab.harness.server import Server
from lab.harness.service import Samples, total
from lab.harness.usage import cpu_s, resident_bytes
from lab.load.endpoints import STAMP, Sink
from lab.load.pacing import Schedule, planned_ns
from lab.load.polls import BYTES_PER_MIB
from lab.load.topics import ARRIVAL_TIMEOUT_S, Topic, open_topic
from lab.measure import statement_count
from lab.measure.backends import Backends, Costs
from lab.measure.figures import NS_PER_MS, Figures, Meter, percentile

ENDPOINTS = (1, 101)
"""The numbers of endpoints of the topics."""
RATE = 20.0
"""Notifications a second."""
NOTIFICATIONS, PUBLISHES_MIN = 300, 5
WARM_UP = 50
REPORT_S = 3.0
"""The worker reports its histograms every second."""
TRUNCATED_MS = 0.5
"""The time in a notification is cut to milliseconds: it is earlier by half a millisecond in the mean."""
WORKER = "worker"

_ACCEPTED = re.compile(rb'"Timestamp"\s*:\s*"([^"]+)Z"')


class Hop(NamedTuple):
    name: str
    mean_ms: float


def hops_of(
    *,
    answered: float,
    accepted: float,
    arrived: float,
    fanout_begun: float,
    fanout_took: float,
    job_begun: float,
    delivered: float,
) -> list[Hop]:
    """The hops in their order, from means of one run in ms: the first three from the begin of the publish call, by the
    generator's clock, the others from the time at which the service accepted it. `fanout_took` is 0 without a producer.
    A queue's hop is negative if its consumer has the job before the API answers."""
    begun, stored = accepted + fanout_begun, accepted + fanout_begun + fanout_took
    producing = [("queue of publish jobs", begun), ("producer, until its jobs are stored", stored)]
    steps = [
        ("API, until its answer", answered),
        *(producing if fanout_took else []),
        ("queue of endpoint jobs", accepted + job_begun),
        ("consumer, until the endpoint has the notification", arrived),
        ("endpoint, until its answer is noted", accepted + delivered),
    ]
    before = [0.0, *[until for _, until in steps]]
    return [Hop(name, until - earlier) for (name, until), earlier in zip(steps, before, strict=False)]


class Run(NamedTuple):
    endpoints: int
    hops: list[Hop]
    total_ms: list[float]
    """Times from the publish to each arrival, sorted."""
    api_cpu_s: float
    worker_cpu_s: float
    costs: Costs
    written_bytes: int
    """Statements and bytes, as Cassandra counts them."""


class _TimedSink(Sink):
    """Notes when the service accepted each notification, as time since its publish began."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted_ms: list[float] = []
        self._wall_ns = time_ns() - perf_counter_ns()

    def reset(self) -> None:
        super().reset()
        self.accepted_ms = []

    def received(self, request: bytes) -> None:
        super().received(request)
        stamp, accepted = STAMP.search(request), _ACCEPTED.search(request)
        if stamp is not None and accepted is not None:
            at = datetime.fromisoformat(f"{accepted[1].decode()}+00:00").timestamp()
            self.accepted_ms.append(at * 1_000 + TRUNCATED_MS - (int(stamp[1]) + self._wall_ns) / NS_PER_MS)


async def measure(server: Server, backends: Backends, endpoints: int, seed: int) -> Run:
    topic, sink = await open_topic(server, 1, seed, f"hops-{endpoints}"), _TimedSink()
    publishes, rate = max(NOTIFICATIONS // endpoints, PUBLISHES_MIN), RATE / endpoints
    await topic.subscribe_sink(sink, raw=False, times=endpoints)
    await _publish(topic, sink, WARM_UP // endpoints + 1, rate, endpoints)
    await asyncio.sleep(REPORT_S)
    before, cpu = await server.samples(), _by_kind(server, cpu_s)
    await backends.begin()
    meter, written = Meter(server), backends.written_bytes()
    answered_ms = await _publish(topic, sink, publishes, rate, endpoints)
    figures: Figures = meter.read("notification", 1, publishes * endpoints, sink.times_ns)
    (costs,) = await backends.costs(figures)
    used = {kind: after - cpu[kind] for kind, after in _by_kind(server, cpu_s).items()}
    written = backends.written_bytes() - written
    await asyncio.sleep(REPORT_S)
    mean = partial(mean_ms, before, await server.samples())
    hops = hops_of(
        answered=statistics.fmean(answered_ms),
        accepted=statistics.fmean(sink.accepted_ms),
        arrived=statistics.fmean(sink.times_ns) / NS_PER_MS,
        fanout_begun=mean("job_wait_seconds", queue="publish-jobs"),
        fanout_took=mean("fanout_seconds", queue="publish-jobs"),
        job_begun=mean("job_wait_seconds", queue="endpoint-jobs"),
        delivered=mean("delivery_seconds", attempt="first"),
    )
    total_ms = sorted(ns / NS_PER_MS for ns in sink.times_ns)
    topic.client.close()
    sink.close()
    return Run(endpoints, hops, total_ms, used[""], used[WORKER], costs, written)


async def _publish(topic: Topic, sink: Sink, n: int, rate: float, endpoints: int) -> list[float]:
    """Publish one by one at the rate, and wait for all arrivals. Returns the times of the calls in ms."""
    sink.reset()
    answered_ms: list[float] = []
    began_ns = 0

    def request(_number: int) -> bytes:
        nonlocal began_ns
        began_ns = perf_counter_ns()
        return topic.stamped(began_ns)

    def answered(_number: int, _answer: bytes) -> None:
        answered_ms.append((perf_counter_ns() - began_ns) / NS_PER_MS)

    await Schedule(planned_ns(rate, n / rate)).run(topic.client.lanes, request, answered)
    await sink.await_count(len(answered_ms) * endpoints, ARRIVAL_TIMEOUT_S)
    return answered_ms


def mean_ms(before: Samples, after: Samples, histogram: str, **labels: str) -> float:
    """Return the mean of what all processes observed in between; 0 if they observed nothing."""
    added_s, count = (
        total(after, f"cns_{histogram}_{part}", **labels) - total(before, f"cns_{histogram}_{part}", **labels)
        for part in ("sum", "count")
    )
    return 1_000 * added_s / count if count else 0.0


def _by_kind(server: Server, reading: Callable[[int], float]) -> dict[str, float]:
    """Readings of the workers, and under '' of all other processes of the service."""
    read = {WORKER: 0.0, "": 0.0}
    for pid in server.processes():
        read[WORKER if WORKER in psutil.Process(pid).name() else ""] += reading(pid)
    return read


def section(scratch: Path, _n: int, seed: int) -> list[str]:
    out = scratch / "statements"
    counting = statement_count.environment(out)
    with (
        store() as place,
        service(scratch / "hops", {**settings_in(place), **counting}) as server,
        Backends(place, servers.redis_url(), out) as backends,
    ):
        runs = [uvloop.run(measure(server, backends, endpoints, seed)) for endpoints in ENDPOINTS]
        memory = [*_by_kind(server, resident_bytes).values(), *backends.resident_bytes()]
    return lines(runs, memory)


def lines(runs: Sequence[Run], memory: Sequence[float]) -> list[str]:
    """`memory` is that of the worker, the API, Cassandra and Redis."""
    names = list(dict.fromkeys(hop.name for run in sorted(runs, key=lambda run: -len(run.hops)) for hop in run.hops))
    per_1000: dict[str, Callable[[Run], float]] = {
        "CPU s of the API": lambda run: 1_000 * run.api_cpu_s / run.costs.units,
        "CPU s of the worker": lambda run: 1_000 * run.worker_cpu_s / run.costs.units,
        "CPU s of Cassandra": lambda run: run.costs.cassandra_us / 1_000,
        "CPU s of Redis": lambda run: run.costs.redis_us / 1_000,
        "statements": lambda run: 1_000 * run.costs.statements,
        "Redis calls": lambda run: 1_000 * run.costs.redis_calls,
        "MiB that Cassandra wrote": lambda run: 1_000 * run.written_bytes / run.costs.units / BYTES_PER_MIB,
    }
    rows = [
        *[(name, *[_ms(dict(run.hops).get(name)) for run in runs]) for name in names],
        ("all hops", *[_ms(sum(hop.mean_ms for hop in run.hops)) for run in runs]),
        ("publish → endpoint: p50, p95, p99", *[_percentiles(run.total_ms) for run in runs]),
        *[
            (f"per 1,000 notifications: {name}", *[f"{value(run):,.2f}" for run in runs])
            for name, value in per_1000.items()
        ],
    ]
    mib = joined([bytes_ / BYTES_PER_MIB for bytes_ in memory], 0)
    return [
        *table(("mean ms of a hop", *[f"{run.endpoints} endpoint(s)" for run in runs]), rows),
        "",
        f"MiB of memory of the worker, the API, Cassandra and Redis: {mib}.",
    ]


def _ms(ms: float | None) -> str:
    return "" if ms is None else f"{ms:.1f}"


def _percentiles(ordered: Sequence[float]) -> str:
    return joined([percentile(ordered, percent) for percent in (50, 95, 99)])
