"""Experiments on what seed 003 (cassandra-queue) states of its pipes, on `pipes`. A pusher, and a popper, is an API
process: each has pipes, and leases on pipes, of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter_ns

from msgspec.structs import replace

from lab.bench import tables
from lab.bench.order.figures import Row
from lab.bench.order.run import measured
from lab.bench.order.workload import Load
from lab.bench.site import Site, site
from lab.experiments.report import (
    AWAY,
    CONDITIONAL,
    CONSISTENCY,
    FAILED_CALLS,
    FURTHEST,
    LOSS,
    POP,
    RATES,
    SEND,
    STATEMENTS_CELLS,
    TWICE,
    Report,
    claim,
    lost,
    measured_each,
    named,
    number,
    percent,
    table,
)
from lab.measure.figures import NS_PER_MS

ENGINE = "pipes"
ONE_QUEUE = Load(queues=1, visibility_s=60, attributes={"Engine": ENGINE})
SPIKE_WORK_S = 0.02
BACKLOG, DRAINED = "backlog at the last send", "drained after, s"
MODES = {
    "owned": {"PopMode": "owned"},
    "turns": {"PopMode": "turns"},
    "owned, MaxPopWidth 1": {"PopMode": "owned", "MaxPopWidth": "1"},
    "StrictFifo single": {"StrictFifo": "single"},
    "StrictFifo locked": {"StrictFifo": "locked"},
}
IDLE_S = 10.0
WAKES = 20
SETTLE_S = 3.0
WORK_S = 0.05


def spike(scratch: Path, seed: int) -> Report:
    load = replace(ONE_QUEUE, name="spike", senders=64, receivers=8, messages=75, receive_delay_s=SPIKE_WORK_S)
    with site(ENGINE, 2, scratch) as started:
        run = measured(load, started, seed, together=True)
    failed, backlog, drained_s = (run[name] for name in ("failed calls", BACKLOG, DRAINED))
    return Report(
        title="A spike",
        setup="64 senders send 75 messages of 2 KiB each, as fast as they can, and then none; N = 2 API processes,"
        f" 8 receivers throughout, which work {SPIKE_WORK_S * 1_000:.0f} ms on each message.",
        table=table(
            "",
            {"spike": run},
            {
                "sent": number("messages"),
                **FAILED_CALLS,
                "send/s": number(SEND),
                "receive+delete/s": number(POP),
                "backlog at the last send": number(BACKLOG),
                "drained after, s": number(DRAINED, 1),
                "loss ε": percent(LOSS),
                "duplicates λ": percent(TWICE),
            },
        ),
        claims=[
            claim(
                "P2",
                "Takes large spikes; processing may lag, messages are never refused",
                f"{failed:.0f} calls failed, loss {run[LOSS]:.2%}; the backlog of {backlog:,.0f} is gone after"
                f" {drained_s:.1f} s",
                holds=not failed and not run[LOSS],
            )
        ],
    )


def workers(scratch: Path, seed: int) -> Report:
    with site(ENGINE, 4, scratch) as started:
        of = {f"{n} × {n}": replace(ONE_QUEUE, senders=n, receivers=n, messages=960 // n) for n in (1, 4, 16)}
        runs = measured_each(of, started, seed, together=True)
    many = runs["16 × 16"]
    return Report(
        title="Writers and readers at once",
        setup="One queue, as many writers as readers, 960 messages of 2 KiB, over 4 API processes, at the same time.",
        table=table("writers × readers", runs, {**RATES, **CONSISTENCY, **FAILED_CALLS}),
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
    with site(ENGINE, 4, scratch) as started:
        load = replace(ONE_QUEUE, senders=8, receivers=8, messages=75)
        of = {name: replace(load, attributes=load.attributes | options) for name, options in MODES.items()}
        runs = measured_each(of, started, seed)
    owned, turns, locked = runs["owned"], runs["turns"], runs["StrictFifo locked"]
    furthest = max(row[FURTHEST] for row in runs.values())
    return Report(
        title="How a popper gets its messages",
        setup="One queue, 4 API processes (so 4 pushers and 4 poppers) with 8 senders and 8 receivers, 600 messages of"
        " 2 KiB, `PipeSize` 1,000. First all sends, then all receives.",
        table=table("mode", runs, {**RATES, **CONSISTENCY, **STATEMENTS_CELLS}),
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
                holds=furthest < 600 and not lost(runs),
            ),
        ],
    )


def poppers(scratch: Path, seed: int) -> Report:
    """One process pushes to pipes of 50 messages, so that there is a pipe for each popper."""
    counts = (1, 2, 3)
    with site(ENGINE, 4, scratch) as started:
        runs = {f"1 : {n}": _apart(0, started, n, seed) for n in counts}
        with_work = {f"1 : {n}, {WORK_S * 1_000:.0f} ms": _apart(WORK_S, started, n, seed) for n in counts}
    one, three = runs["1 : 1"], runs["1 : 3"]
    busy = [row[POP] for row in with_work.values()]
    return Report(
        title="Pushers and poppers",
        setup="8 connections send through one API process, then 8 for each popper receive through 1 to 3 others; 800"
        f" messages of 2 KiB, `PipeSize` 50. Then with receivers that work {WORK_S * 1_000:.0f} ms on each message, so"
        " that they and not the two cores limit the rate.",
        table=table("pushers : poppers", runs | with_work, RATES),
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


def _apart(work_s: float, started: Site, n: int, seed: int) -> Row:
    """One API process for the senders, and `n` others for the receivers."""
    few = ONE_QUEUE.attributes | {"PipeSize": "50"}
    load = replace(ONE_QUEUE, senders=8, receivers=8 * n, messages=100, receive_delay_s=work_s, attributes=few)
    pushers, poppers = started.caller(), started.caller()
    pushers.ports, poppers.ports = started.ports[:1], started.ports[1 : 1 + n]
    return measured(named(load, f"poppers-{n}-{work_s}"), started, seed, callers=(pushers, poppers))


def idle(scratch: Path, seed: int) -> Report:
    with site(ENGINE, 4, scratch) as started:
        (one, three), times_ms = asyncio.run(_idle(started, Random(seed)))
    p50 = median(times_ms)
    return Report(
        title="Idle poppers",
        setup="4 API processes; long polls wait at one or at three of them, and the fourth sends one message at a"
        " time.",
        table=[
            *tables.table(
                ("poppers that wait", "statements/s while nothing comes", "of them conditional"),
                [(1, *[f"{rate:.1f}" for rate in one]), (3, *[f"{rate:.1f}" for rate in three])],
            ),
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


Rates = tuple[float, float]
"""Statements a second, and conditional ones."""


async def _idle(started: Site, random: Random) -> tuple[list[Rates], list[float]]:
    """Rates with one popper and with three, and the times from a send to its receive."""
    caller = started.caller()
    made = await caller.ask("CreateQueue", QueueName="idle", Attributes={"Engine": ENGINE})
    account = made["QueueUrl"].split("/")[-2]
    sender = caller.another(0, random)
    sender.account = account

    async def poll(place: int) -> int:
        popper = started.caller().another(place, random)
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
        before = started.statements()
        await asyncio.sleep(IDLE_S)
        used = started.statements().since(before)
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
    return rates, times_ms
