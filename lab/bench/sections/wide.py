"""The section `wide`: a topic with many subscriptions against a small one, and topics with many filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import uvloop

from lab.bench.sections import wide_filters
from lab.bench.sections.depth import DepthFigures, Side, compare
from lab.bench.sections.runs import SERVICE, served
from lab.harness.server import Server, running
from lab.load.queues import Client
from lab.load.topics import Topic
from lab.load.wide_topic import NAME, FanOut, WideTopic, publish_cycle
from lab.load.wire import connect
from lab.measure.figures import bar_cell

CONNECTIONS = 16
FAN_OUTS = 2
BAR = 1.2
SUBSCRIBES_S_MIN, GROWN_MIB_MAX = 1_000, 50
NO_WORKER = [*SERVICE, "--no-worker"]


class Size(msgspec.Struct, frozen=True, kw_only=True):
    subscriptions: tuple[int, int]
    cycles: int


FULL = Size(subscriptions=(100, 100_000), cycles=200)


class WideFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a topic with one number of subscriptions."""

    operations: DepthFigures
    subscribes_per_s: list[float]  # over all connections: the first part, the last part
    fan_outs: list[FanOut]


async def measure(servers: Sequence[Server], size: Size, seed: int) -> list[WideFigures]:
    """Measure everything but the time of a publish call, which `accepting` measures without a concurrent fan-out."""
    topics = [
        WideTopic(Client(server, await connect(server.port, CONNECTIONS), seed), n)
        for server, n in zip(servers, size.subscriptions, strict=True)
    ]
    subscribes = [await topic.fill() for topic in topics]
    operations = await compare([Side(topic.subscriptions, topic.client, topic.cycle) for topic in topics], size.cycles)
    fan_outs = [[await topic.fan_out() for _ in range(FAN_OUTS)] for topic in topics]
    for topic in topics:
        await topic.check_queues(FAN_OUTS)
        topic.client.close()
    return [
        WideFigures(operations=each, subscribes_per_s=per_s, fan_outs=fanned_out)
        for each, per_s, fanned_out in zip(operations, subscribes, fan_outs, strict=True)
    ]


async def accepting(servers: Sequence[Server], size: Size, seed: int) -> list[DepthFigures]:
    """Measure publish calls on the existing topics without a worker: delivering all of them would take hours."""
    sides = []
    for server, n in zip(servers, size.subscriptions, strict=True):
        client = Client(server, await connect(server.port, 1), seed)
        topic = Topic(client)
        await topic.open(NAME)
        sides.append(Side(n, client, publish_cycle(topic, client.body())))
    figures = await compare(sides, size.cycles)
    for side in sides:
        side.client.close()
    return figures


def both(scratch: Path, size: Size, seed: int) -> tuple[list[WideFigures], list[DepthFigures]]:
    names = ("small", "large")
    with ExitStack() as stack:
        servers = [stack.enter_context(served(name, SERVICE, scratch / f"wide-{name}")) for name in names]
        wide = uvloop.run(measure(servers, size, seed))
    with ExitStack() as stack:
        again = [
            dataclasses.replace(
                stack.enter_context(running(each.name, NO_WORKER, each.data)), credentials=each.credentials
            )
            for each in servers
        ]
        return wide, uvloop.run(accepting(again, size, seed))


# -- the section ------------------------------------------------------------------------------------------------------


def table(scratch: Path, _n: int, seed: int) -> list[str]:
    wide, publishes = both(scratch, FULL, seed)
    return [*lines(wide, publishes), "", *wide_filters.table(scratch, seed)]


def lines(wide: Sequence[WideFigures], publishes: Sequence[DepthFigures]) -> list[str]:
    small, large = wide
    times = [one.operations.mean_ms | accepted.mean_ms for one, accepted in zip(wide, publishes, strict=True)]
    first_per_s, last_per_s = large.subscribes_per_s
    n, messages = large.operations.depth, large.operations.depth * FAN_OUTS
    written = sum(one.written_mib for one in large.fan_outs)
    return [
        f"Each subscription has a queue of its own. {CONNECTIONS} connections subscribe; all other times are for one"
        " connection, one call at a time, alternating between the two topics. Publishes are timed without a worker.",
        "",
        f"| mean ms with subscriptions | {small.operations.depth:,} | {n:,} | ratio | bar |",
        "|---|---|---|---|---|",
        *[
            f"| {name} | {few_ms:.3f} | {times[1][name]:.3f} | **{times[1][name] / few_ms:.2f}** |"
            f" {bar_cell(f'≤ {BAR}', met=times[1][name] / few_ms <= BAR)} |"
            for name, few_ms in times[0].items()
        ],
        "",
        "| | measured | bar |",
        "|---|---|---|",
        f"| Subscribe calls/s, first {n // 20:,} | {first_per_s:,.0f} | |",
        f"| … last {n // 20:,} | **{last_per_s:,.0f}** |"
        f" {bar_cell(f'≥ {SUBSCRIBES_S_MIN:,}', met=last_per_s >= SUBSCRIBES_S_MIN)} |",
        *[_fanned_out(number, one) for number, one in enumerate(large.fan_outs, 1)],
        f"| KiB written to disk per delivery | {written * 1024 / messages:.1f} | |",
    ]


def _fanned_out(number: int, one: FanOut) -> str:
    return (
        f"| publish {number}: all {one.subscriptions:,} delivered after, s; resident MiB before, peak, **growth** |"
        f" {one.seconds:.1f}; {one.before_mib:.0f}, {one.peak_mib:.0f}, **{one.peak_mib - one.before_mib:.0f}** |"
        f" {bar_cell(f'< {GROWN_MIB_MAX} MiB', met=one.peak_mib - one.before_mib < GROWN_MIB_MAX)} |"
    )
