"""Runs one experiment: queues, all sends, all receives; while processes are killed, if that is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from random import Random
from time import perf_counter

from lab.bench.order.figures import Row, figures
from lab.bench.order.workload import NO_FAULTS, Experiment, Faults, Load
from lab.bench.site import Site
from lab.harness.processes import Process
from lab.load.caller import Caller

SHOWN = ("send rate, 1/s", "receive+delete rate, 1/s", "duplication rate λ", "average displacement", "failed calls")
"""Figures of the line that reports progress."""
FAILURES_SHOWN = 5


def measured(
    load: Load,
    site: Site,
    seed: int,
    faults: Faults = NO_FAULTS,
    *,
    together: bool = False,
    callers: tuple[Caller, Caller] | None = None,
) -> Row:
    """All sends and then all receives, or at the same time if `together`: statements are then not told apart.
    `callers` are those of senders and receivers; by default they use all API processes."""
    began_s = perf_counter()
    callers = callers or (site.caller(faults.drop_probability),) * 2
    row = asyncio.run(_drive(Experiment(load, callers, Random(seed), faults), site, seed, together=together))
    rates = ", ".join(f"{name}: {row[name]:,.3g}" for name in SHOWN)
    print(f"{load.name}: {perf_counter() - began_s:.1f} s; {rates}", file=sys.stderr, flush=True)
    return row


async def _drive(experiment: Experiment, site: Site, seed: int, *, together: bool) -> Row:
    load, record = experiment.load, experiment.record
    await experiment.create_queues()
    killing = [
        asyncio.create_task(_kill(api, site, experiment, Random(seed + n))) for n, api in enumerate(site.apis, 1)
    ]
    before = between = site.statements()
    try:
        if together:
            await experiment.run_together()
        else:
            await experiment.send_all()
            between = site.statements()
            await experiment.receive_all()
    finally:
        for task in killing:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        experiment.close()
    for text, n in record.failures.most_common(FAILURES_SHOWN):
        print(f"{load.name}: {n} calls failed: {text}", file=sys.stderr, flush=True)
    sends, receives = between.since(before), site.statements().since(between)
    return figures(load, record) | {
        "statements a send": sends.total / load.total,
        "conditional a send": sends.conditional / load.total,
        "statements a receive+delete": receives.total / load.total,
        "conditional a receive+delete": receives.conditional / load.total,
    }


async def _kill(api: Process, site: Site, experiment: Experiment, random: Random) -> None:
    """Kill a process again and again, each time after an exponential time, and start it again. It may be down when this
    is cancelled."""
    faults = experiment.faults
    while faults.mttf_s:
        await asyncio.sleep(random.expovariate(1 / faults.mttf_s))
        experiment.record.kills += 1
        await asyncio.to_thread(api.kill)
        await asyncio.sleep(faults.mttr_s)
        await asyncio.to_thread(site.start, api)
