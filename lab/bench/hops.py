"""Measures the time of each hop of a publish in the cluster form, and what 1,000 notifications cost.

    python -m lab.bench.hops [--rate 20] [--publishes 300] [--endpoints 1,101]

One API process and one worker on Cassandra and Redis, as the tests take them; HTTP endpoints in this process, which
answer at once. A topic with at most 100 subscriptions goes past the producers: its job is for the consumers at once.
The hops follow one another: their means add up to the time from the publish to the endpoint's answer. Means come from
the service's histograms; the time in the notification ties them to this process's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import NamedTuple

import msgspec
import uvloop

from lab.bench.sections.cluster import SERVICE_WITH_WORKER, environment_of, single_node
from lab.bench.sections.runs import is_ready
from lab.harness import servers
from lab.harness.server import Server, running
from lab.harness.usage import cpu_s, resident_bytes
from lab.harness.waiting import wait_until
from lab.load.publishes import ARRIVAL_TIMEOUT_S, Publisher, open_publisher
from lab.load.sink import STAMP, Sink
from lab.measure.backends import Backends, Costs
from lab.measure.figures import NS_PER_MS, Figures, Meter, percentile
from lab.measure.metrics import metrics_page

WARM_UP = 50
REPORT_S = 3.0
"""The worker reports its histograms every second."""
START_S = 60.0
NS_PER_S = 1_000_000_000
MIB = 1_048_576
TRUNCATED_MS = 0.5
"""The time in a notification is cut to milliseconds: it is earlier by half a millisecond in the mean."""
WORKER = "worker"

_ACCEPTED = re.compile(rb'"Timestamp"\s*:\s*"([^"]+)Z"')
_SUM = re.compile(r"^cns_(\w+)_(sum|count)\{([^}]*)\} ([0-9.e+-]+)$", re.MULTILINE)


class HopMeans(NamedTuple):
    """Means of one run in ms. The first three are from the begin of the publish call, by the generator's clock; the
    others from the time at which the service accepted it."""

    answered: float
    accepted: float
    arrived: float
    fanout_begun: float
    fanout_took: float
    job_begun: float
    delivered: float


class Hop(NamedTuple):
    name: str
    mean_ms: float


def hops_of(seen: HopMeans, *, fanned_out: bool) -> list[Hop]:
    """The hops in their order. A queue's hop is negative if its consumer has the job before the API answers."""
    job_begun = seen.accepted + seen.job_begun
    steps = [("API, until its answer", seen.answered)]
    if fanned_out:
        begun = seen.accepted + seen.fanout_begun
        steps += [
            ("queue of publish jobs", begun),
            ("producer, until its jobs are stored", begun + seen.fanout_took),
        ]
    steps += [
        ("queue of endpoint jobs", job_begun),
        ("consumer, until the endpoint has the notification", seen.arrived),
        ("endpoint, until its answer is noted", seen.accepted + seen.delivered),
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


class Memory(NamedTuple):
    """Resident bytes of the processes at the end."""

    api: int
    worker: int
    cassandra: int
    redis: int


class _TimedSink(Sink):
    """Notes when the service accepted each notification, as time since its publish began."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted_ms: list[float] = []
        self._wall_ns = time_ns() - perf_counter_ns()

    def reset(self) -> None:
        super().reset()
        self.accepted_ms = []

    def _received(self, request: bytes) -> None:
        super()._received(request)
        stamp, accepted = STAMP.search(request), _ACCEPTED.search(request)
        if stamp is not None and accepted is not None:
            at = datetime.fromisoformat(f"{accepted[1].decode()}+00:00").timestamp()
            self.accepted_ms.append(at * 1_000 + TRUNCATED_MS - (int(stamp[1]) + self._wall_ns) / NS_PER_MS)


async def measure(server: Server, backends: Backends, endpoints: int, publishes: int, rate: float) -> Run:
    publisher = await open_publisher(server, 1, 1, f"hops-{endpoints}")
    sink = _TimedSink()
    await publisher.subscribe_sink(sink, raw=False, times=endpoints)
    await _publish(publisher, sink, WARM_UP // endpoints + 1, rate, endpoints)
    await asyncio.sleep(REPORT_S)
    before, cpu = await _histograms(server), _cpu_s(server)
    await backends.begin()
    meter, written = Meter(server), backends.written_bytes()
    answered_ms = await _publish(publisher, sink, publishes, rate, endpoints)
    figures: Figures = meter.read("notification", 1, publishes * endpoints, sink.times_ns)
    (costs,) = await backends.costs(server, figures)
    used = {kind: after - cpu[kind] for kind, after in _cpu_s(server).items()}
    written = backends.written_bytes() - written
    await asyncio.sleep(REPORT_S)
    means = means_between(before, await _histograms(server))
    seen = HopMeans(
        answered=statistics.fmean(answered_ms),
        accepted=statistics.fmean(sink.accepted_ms),
        arrived=statistics.fmean(sink.times_ns) / NS_PER_MS,
        fanout_begun=means.get(("job_wait_seconds", "publish-jobs"), 0.0),
        fanout_took=means.get(("fanout_seconds", "publish-jobs"), 0.0),
        job_begun=means[("job_wait_seconds", "endpoint-jobs")],
        delivered=means[("delivery_seconds", "first")],
    )
    fanned_out = ("fanout_seconds", "publish-jobs") in means
    total_ms = sorted(ns / NS_PER_MS for ns in sink.times_ns)
    publisher.close()
    await sink.close()
    return Run(endpoints, hops_of(seen, fanned_out=fanned_out), total_ms, used[""], used[WORKER], costs, written)


async def _publish(publisher: Publisher, sink: Sink, n: int, rate: float, endpoints: int) -> list[float]:
    """Publish one by one at the rate, and wait for all arrivals. Returns the times of the calls in ms."""
    sink.reset()
    answered_ms: list[float] = []
    begun_ns = perf_counter_ns()
    for number in range(n):
        left_ns = begun_ns + int(number / rate * NS_PER_S) - perf_counter_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / NS_PER_S)
        at_ns = perf_counter_ns()
        await publisher.lanes[0].ask(publisher.request(at_ns))
        answered_ms.append((perf_counter_ns() - at_ns) / NS_PER_MS)
    await sink.await_count(n * endpoints, ARRIVAL_TIMEOUT_S)
    return answered_ms


Histograms = dict[tuple[str, str], tuple[float, float]]
"""Sum in seconds and count, by metric and one label: the queue, or the attempt."""


async def _histograms(server: Server) -> Histograms:
    return histograms_in(await asyncio.to_thread(metrics_page, server.port))


def histograms_in(page: str) -> Histograms:
    found: dict[tuple[str, str], list[float]] = {}
    for name, what, labels, value in _SUM.findall(page):
        known = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        label = known.get("queue") or known.get("attempt", "")
        found.setdefault((name, label), [0.0, 0.0])[what == "count"] += float(value)
    return {key: (total, count) for key, (total, count) in found.items()}


def means_between(before: Histograms, after: Histograms) -> dict[tuple[str, str], float]:
    """Means in ms of what was observed in between."""
    changes = {
        key: tuple(b - a for a, b in zip(before.get(key, (0.0, 0.0)), now, strict=True)) for key, now in after.items()
    }
    return {key: 1_000 * total / count for key, (total, count) in changes.items() if count}


def _cpu_s(server: Server) -> dict[str, float]:
    """CPU seconds of the workers, and under '' of all other processes of the service."""
    return _by_kind(server, cpu_s)


def _by_kind(server: Server, reading: Callable[[int], float]) -> dict[str, float]:
    read = {WORKER: 0.0, "": 0.0}
    for pid in server.processes():
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        read[WORKER if WORKER.encode() in command else ""] += reading(pid)
    return read


def memory_of(server: Server, backends: Backends) -> Memory:
    service = _by_kind(server, resident_bytes)
    return Memory(int(service[""]), int(service[WORKER]), *backends.resident_bytes())


def table(runs: Sequence[Run], memory: Memory) -> list[str]:
    names = list(dict.fromkeys(hop.name for run in sorted(runs, key=lambda run: -len(run.hops)) for hop in run.hops))
    rows = [(name, [dict(run.hops).get(name) for run in runs]) for name in names]
    per_1000 = [
        ("CPU s of the API", [1_000 * run.api_cpu_s / run.costs.units for run in runs]),
        ("CPU s of the worker", [1_000 * run.worker_cpu_s / run.costs.units for run in runs]),
        ("CPU s of Cassandra", [run.costs.cassandra_us / 1_000 for run in runs]),
        ("CPU s of Redis", [run.costs.redis_us / 1_000 for run in runs]),
        ("statements", [1_000 * run.costs.statements for run in runs]),
        ("Redis calls", [1_000 * run.costs.redis_calls for run in runs]),
        ("MiB that Cassandra wrote", [1_000 * run.written_bytes / run.costs.units / MIB for run in runs]),
    ]
    return [
        f"| mean ms of a hop | {' | '.join(f'{run.endpoints} endpoint(s)' for run in runs)} |",
        "|---" * (len(runs) + 1) + "|",
        *[f"| {name} | {' | '.join('' if ms is None else f'{ms:.1f}' for ms in cells)} |" for name, cells in rows],
        f"| all hops | {' | '.join(f'{sum(hop.mean_ms for hop in run.hops):.1f}' for run in runs)} |",
        f"| publish → endpoint: p50, p95, p99 | {' | '.join(_percentiles(run.total_ms) for run in runs)} |",
        *[
            f"| per 1,000 notifications: {name} | {' | '.join(f'{value:,.2f}' for value in cells)} |"
            for name, cells in per_1000
        ],
        f"| MiB of memory: API, worker, Cassandra, Redis | {', '.join(f'{bytes_ / MIB:.0f}' for bytes_ in memory)} |",
    ]


def _percentiles(ordered: Sequence[float]) -> str:
    return ", ".join(f"{percentile(ordered, percent):.1f}" for percent in (50, 95, 99))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, default=20.0, help="notifications a second")
    parser.add_argument(
        "--publishes", type=int, default=300, help="with one endpoint; with more, as many notifications"
    )
    parser.add_argument("--endpoints", default="1,101", help="of the topics")
    given = parser.parse_args()
    runs: list[Run] = []
    with single_node() as place, tempfile.TemporaryDirectory() as scratch:
        environment = environment_of(place)
        with running("service", SERVICE_WITH_WORKER, Path(scratch), environment) as server:
            wait_until(lambda: is_ready(server.port), START_S, lambda: "the service is not ready")
            with closing(Backends(place, servers.redis_url())) as backends:
                for endpoints in [int(number) for number in given.endpoints.split(",")]:
                    publishes = max(given.publishes // endpoints, 5)
                    rate = given.rate / endpoints
                    runs.append(uvloop.run(measure(server, backends, endpoints, publishes, rate)))
                    print(msgspec.json.encode(runs[-1].costs).decode(), flush=True)
                memory = memory_of(server, backends)
    print("\n".join(table(runs, memory)))


if __name__ == "__main__":
    main()
