"""Experiments on what seed 003 (cassandra-queue) states of its pipes, on `pipes`. A pusher, and a popper, is an API
process: each has pipes, and leases on pipes, of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter_ns

import msgspec

from lab.bench.order.figures import NS_PER_MS, Row, figures
from lab.bench.order.run import measured
from lab.bench.order.service import Site, service
from lab.bench.order.workload import Experiment, Load
from lab.bench.sections.drawing import draw
from lab.experiments.report import (
    CONDITIONAL,
    CONSISTENCY,
    RATES,
    STATEMENTS,
    Report,
    claim,
    number,
    statements,
    table,
)
from lab.experiments.spike import Spike, drive_spike

ENGINE = "pipes"
SEND, POP, POP_MS = "send rate, 1/s", "receive+delete rate, 1/s", "receive response, mean ms"
LOSS, TWICE, AWAY, FURTHEST = "loss rate ε", "duplication rate λ", "average displacement", "largest displacement"
SPIKE = Spike(base_per_s=10, factor=100, calm_s=5, spike_s=10, receivers=8, work_s=0.02)
MODES = {
    "owned": {"PopMode": "owned"},
    "turns": {"PopMode": "turns"},
    "owned, MaxPopWidth 1": {"PopMode": "owned", "MaxPopWidth": "1"},
    "StrictFifo single": {"StrictFifo": "single"},
    "StrictFifo locked": {"StrictFifo": "locked"},
}
PIPE_SIZES = (10, 100, 1_000, 10_000)
DEPTHS = (50, 250)
"""Messages of each of four senders."""
IDLE_S = 10.0
WAKES = 20
SETTLE_S = 3.0
WORK_S = 0.05


def spike(scratch: Path, seed: int) -> Report:
    with service(ENGINE, 2, scratch) as site:
        outcome = asyncio.run(drive_spike(site.caller(), {"Engine": ENGINE}, SPIKE, Random(seed)))
    spike_per_s = SPIKE.base_per_s * SPIKE.factor
    return Report(
        title="A spike of 100 times the load",
        setup=f"{SPIKE.base_per_s} messages of 1 KiB a second for {SPIKE.calm_s} s, then {spike_per_s:,} a second for"
        f" {SPIKE.spike_s} s in batches of ten, then none; N = 2 API processes, {SPIKE.receivers} receivers throughout,"
        f" which work {SPIKE.work_s * 1000:.0f} ms on each message.",
        table=[
            "| sent | refused or failed calls | sent/s in the spike | backlog at its end | drained after, s | lost |"
            " duplicates |",
            "|---|---|---|---|---|---|---|",
            f"| {outcome.sent:,} | {outcome.errors} | {outcome.spike_per_s:,.0f} | {outcome.backlog:,} |"
            f" {outcome.drained_s:.1f} | {outcome.lost} | {outcome.duplicates} |",
        ],
        claims=[
            claim(
                "P2",
                "Takes large spikes; processing may lag, messages are never refused",
                f"{outcome.errors} calls failed, {outcome.lost} lost; the backlog of {outcome.backlog:,} is gone after"
                f" {outcome.drained_s:.1f} s",
                holds=not outcome.errors and not outcome.lost,
            )
        ],
    )


def workers(scratch: Path, seed: int) -> Report:
    runs: dict[str, Row] = {}
    with service(ENGINE, 4, scratch) as site:
        for n in (1, 4, 16):
            load = Load(
                name=f"workers-{n}", queues=1, senders=n, receivers=n, messages=960 // n, visibility_s=60,
                attributes={"Engine": ENGINE},
            )  # fmt: skip
            runs[f"{n} × {n}"] = measured(load, site, seed, together=True)
    many = runs["16 × 16"]
    return Report(
        title="Writers and readers at once",
        setup="One queue, as many writers as readers, 960 messages of 2 KiB, over 4 API processes, at the same time.",
        table=table("writers × readers", runs, {**RATES, **CONSISTENCY, "failed calls": number("failed calls")}),
        claims=[
            claim(
                "P5",
                "Many writers and readers work autonomously",
                f"16 × 16: {many['failed calls']:.0f} failed calls, loss {many[LOSS]:.2%}, duplicates"
                f" {many[TWICE]:.2%}",
                holds=not many["failed calls"] and not many[LOSS] and not many[TWICE],
            )
        ],
    )


def modes(scratch: Path, seed: int) -> Report:
    runs: dict[str, Row] = {}
    with service(ENGINE, 4, scratch) as site:
        for name, attributes in MODES.items():
            load = Load(
                name=name.replace(" ", "-").replace(",", ""), queues=1, senders=8, receivers=8, messages=75,
                visibility_s=60, attributes={"Engine": ENGINE, **attributes},
            )  # fmt: skip
            runs[name] = measured(load, site, seed)
    owned, turns, locked = runs["owned"], runs["turns"], runs["StrictFifo locked"]
    furthest = max(row[FURTHEST] for row in runs.values())
    return Report(
        title="How a popper gets its messages",
        setup="One queue, 4 API processes (so 4 pushers and 4 poppers) with 8 senders and 8 receivers, 600 messages of"
        " 2 KiB, `PipeSize` 1,000. First all sends, then all receives.",
        table=table(
            "mode",
            runs,
            {**RATES, **CONSISTENCY, "statements, conditional": statements},
        ),
        claims=[
            claim(
                "P37",
                "A lock per pop is too slow; a popper that owns a pipe is faster …",
                f"owned {owned[POP]:,.0f}/s with {owned[CONDITIONAL]:.2f} conditional statements a message, turns"
                f" {turns[POP]:,.0f}/s with {turns[CONDITIONAL]:.2f}, locked {locked[POP]:,.0f}/s with"
                f" {locked[CONDITIONAL]:.2f}",
                holds=owned[POP] > turns[POP] and owned[CONDITIONAL] < turns[CONDITIONAL],
            ),
            claim(
                "P37",
                "… at the price of less order",
                f"displacement {owned[AWAY]:.1f}, in turns {turns[AWAY]:.1f}, locked {locked[AWAY]:.1f}",
                holds=owned[AWAY] > turns[AWAY],
            ),
            claim(
                "P15",
                "No message starves; messages are popped close to their neighbours in time",
                f"nothing lost; the largest displacement of 600 messages is {furthest:.0f}",
                holds=furthest < 600 and not any(row[LOSS] for row in runs.values()),
            ),
        ],
    )


def poppers(scratch: Path, seed: int) -> Report:
    """One process pushes to pipes of 50 messages, so that there is a pipe for each popper."""
    runs: dict[str, Row] = {}
    with service(ENGINE, 4, scratch) as site:
        for n in (1, 2, 3):
            load = Load(
                name=f"poppers-{n}", queues=1, senders=8, receivers=8 * n, messages=100, visibility_s=60,
                attributes={"Engine": ENGINE, "PipeSize": "50"},
            )  # fmt: skip
            runs[f"1 : {n}"] = asyncio.run(_apart(load, site, n, seed))
        for n in (1, 2, 3):
            working = msgspec.structs.replace(load, name=f"working-{n}", receivers=8 * n, receive_delay_s=WORK_S)
            runs[f"1 : {n}, {WORK_S * 1_000:.0f} ms"] = asyncio.run(_apart(working, site, n, seed))
    one, three = runs["1 : 1"], runs["1 : 3"]
    busy = [runs[f"1 : {n}, {WORK_S * 1_000:.0f} ms"][POP] for n in (1, 2, 3)]
    return Report(
        title="Pushers and poppers",
        setup="8 connections send through one API process, then 8 for each popper receive through 1 to 3 others; 800"
        f" messages of 2 KiB, `PipeSize` 50. Then with receivers that work {WORK_S * 1_000:.0f} ms on each message, so"
        " that they and not the two cores limit the rate.",
        table=table("pushers : poppers", runs, RATES),
        claims=[
            claim(
                "P46",
                "Have more poppers than pushers: popping is slower than pushing",
                f"one popper takes {one[POP]:,.0f}/s of the {one[SEND]:,.0f}/s that one pusher sends: ratio"
                f" {one[SEND] / one[POP]:.1f}",
                holds=one[SEND] > one[POP],
            ),
            claim(
                "P47, P52",
                "More poppers raise the throughput, as long as there are cores for them",
                f"{', '.join(f'{rate:,.0f}' for rate in busy)}/s with one, two and three whose receivers work; at full"
                f" speed {one[POP]:,.0f}/s with one and {three[POP]:,.0f}/s with three, on two cores",
                holds=busy[1] > 1.3 * busy[0] and busy[2] > busy[1],
            ),
        ],
    )


async def _apart(load: Load, site: Site, n: int, seed: int) -> Row:
    pushers, receivers = site.caller(), site.caller()
    pushers.ports, receivers.ports = site.ports[:1], site.ports[1 : 1 + n]
    experiment = Experiment(load, pushers, Random(seed), receivers=receivers)
    await experiment.create_queues()
    await experiment.send_all()
    await experiment.receive_all()
    experiment.close()
    return figures(load, experiment.measured)


def pipe_size(scratch: Path, seed: int) -> Report:
    runs: dict[str, Row] = {}
    with service(ENGINE, 1, scratch) as site:
        for messages in DEPTHS:
            for size in PIPE_SIZES:
                load = Load(
                    name=f"size-{size}-{messages}", queues=1, senders=4, receivers=1, messages=messages,
                    visibility_s=600, attributes={"Engine": ENGINE, "PipeSize": str(size)},
                )  # fmt: skip
                runs[f"{size:,}, {4 * messages:,}"] = measured(load, site, seed)
    times = {f"{4 * m:,} messages": [runs[f"{size:,}, {4 * m:,}"][POP_MS] for size in PIPE_SIZES] for m in DEPTHS}
    few, many = (runs[f"1,000, {4 * m:,}"] for m in DEPTHS)
    by_size = [runs[f"{size:,}, {4 * DEPTHS[-1]:,}"][POP_MS] for size in PIPE_SIZES]
    return Report(
        title="Receive time relative to the smallest pipes",
        setup="One API process, 4 senders, 1 receiver, messages of 2 KiB.",
        table=table("PipeSize, messages", runs, {**RATES, "statements, conditional": statements}),
        drawings={"experiment-pipe-size.svg": draw("Receive time by PipeSize", PIPE_SIZES, times, 1.0)},
        claims=[
            claim(
                "P47",
                "The time of a pop does not depend on the number of messages",
                f"`PipeSize` 1,000: {few[STATEMENTS]:.1f} statements a message in a queue of 200,"
                f" {many[STATEMENTS]:.1f} in one of 1,000",
                holds=many[STATEMENTS] < 1.2 * few[STATEMENTS],
            ),
            claim(
                "P47",
                "… but on the size of the pipes",
                f"{', '.join(f'{ms:.1f}' for ms in by_size)} ms by `PipeSize`: a popper keeps what it has read of a"
                " pipe",
                holds=by_size == sorted(by_size) and by_size[-1] > 1.5 * by_size[0],
            ),
        ],
    )


def idle(scratch: Path, seed: int) -> Report:
    with service(ENGINE, 4, scratch) as site:
        one, three, times_ms = asyncio.run(_idle(site, Random(seed)))
    p50 = median(times_ms)
    return Report(
        title="Idle poppers",
        setup="4 API processes; long polls wait at one or at three of them, and the fourth sends one message at a"
        " time.",
        table=[
            "| poppers that wait | statements/s while nothing comes | of them conditional |",
            "|---|---|---|",
            f"| 1 | {one[0]:.1f} | {one[1]:.1f} |",
            f"| 3 | {three[0]:.1f} | {three[1]:.1f} |",
            "",
            f"From the send at one process to the receive at another: {p50:.0f} ms in the median of {WAKES},"
            f" {max(times_ms):.0f} ms at most.",
        ],
        claims=[
            claim(
                "P48",
                "Poppers without a pipe keep checking, nothing to worry about, and take a new pipe at once",
                f"{(three[0] - one[0]) / 2:.1f} statements a second and popper; a message is received {p50:.0f} ms"
                " after its send (in the median: a look every 500 ms)",
                holds=p50 < 1_000 and three[0] < 60,
            )
        ],
    )


async def _idle(site: Site, random: Random) -> tuple[tuple[float, float], tuple[float, float], list[float]]:
    caller = site.caller()
    made = await caller.ask("CreateQueue", QueueName="idle", Attributes={"Engine": ENGINE})
    account = made["QueueUrl"].split("/")[-2]
    sender = caller.another(0, random)
    sender.account = account

    async def poll(place: int) -> int:
        popper = site.caller().another(place, random)
        popper.account = account
        try:
            while True:
                found = await popper.call("ReceiveMessage", "idle", WaitTimeSeconds=20)
                for message in (found or {}).get("Messages", []):
                    arrived_ns = perf_counter_ns()
                    await popper.call("DeleteMessage", "idle", ReceiptHandle=message["ReceiptHandle"])
                    return arrived_ns
        finally:
            popper.close()

    rates = []
    for waiting in ((1,), (1, 2, 3)):
        polls = [asyncio.create_task(poll(place)) for place in waiting]
        await asyncio.sleep(SETTLE_S)
        before = site.statements()
        await asyncio.sleep(IDLE_S)
        used = site.statements().since(before)
        rates.append((used.total / IDLE_S, used.conditional / IDLE_S))
        for task in polls:
            task.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
    times_ms = []
    for _ in range(WAKES):
        task = asyncio.create_task(poll(1))
        await asyncio.sleep(random.uniform(0.3, 0.8))
        began_ns = perf_counter_ns()
        await sender.ask("SendMessage", QueueUrl=made["QueueUrl"], MessageBody="wake")
        times_ms.append((await task - began_ns) / NS_PER_MS)
    sender.close()
    caller.close()
    return rates[0], rates[1], times_ms
