"""Runs one experiment: queues, all sends, all receives; while processes are killed, if that is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from random import Random
from time import perf_counter

from lab.bench.order.faults import NO_FAULTS, Faults
from lab.bench.order.figures import Row, figures
from lab.bench.order.service import Killer, Site
from lab.bench.order.workload import Experiment, Load

SHOWN = ("send rate, 1/s", "receive+delete rate, 1/s", "duplication rate λ", "average displacement", "failed calls")
"""Figures of the line that reports progress."""
FAILURES_SHOWN = 5


def measured(load: Load, site: Site, seed: int, faults: Faults = NO_FAULTS, *, together: bool = False) -> Row:
    began_s = perf_counter()
    row = asyncio.run(drive(load, site, seed, faults, together=together))
    rates = ", ".join(f"{name}: {row[name]:,.3g}" for name in SHOWN)
    print(f"{load.name}: {perf_counter() - began_s:.1f} s; {rates}", file=sys.stderr, flush=True)
    return row


async def drive(load: Load, site: Site, seed: int, faults: Faults = NO_FAULTS, *, together: bool = False) -> Row:
    """All sends and then all receives, or at the same time if `together`: statements are then not told apart."""
    random = Random(seed)
    experiment = Experiment(load, site.caller(faults.drop_probability), random, faults)
    await experiment.create_queues()
    killer = Killer(site.apis, faults, Random(seed + 1))
    killing = asyncio.create_task(killer.run())
    before = between = site.statements()
    try:
        if together:
            await experiment.run_together()
        else:
            await experiment.send_all()
            between = site.statements()
            await experiment.receive_all()
    finally:
        killing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await killing
        experiment.close()
    experiment.measured.kills = killer.kills
    for text, n in experiment.measured.failures.most_common(FAILURES_SHOWN):
        print(f"{load.name}: {n} calls failed: {text}", file=sys.stderr, flush=True)
    sends, receives = between.since(before), site.statements().since(between)
    return figures(load, experiment.measured) | {
        "statements a send": sends.total / load.total,
        "conditional a send": sends.conditional / load.total,
        "statements a receive+delete": receives.total / load.total,
        "conditional a receive+delete": receives.conditional / load.total,
    }
