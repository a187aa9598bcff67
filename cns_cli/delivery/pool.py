"""`cns pool …`: the delivery pools of all workers, and their sizes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from cns.delivery.envelope import timestamp_text
from cns_backend.stores.contract import (
    BY_SETTING,
    POOLS,
    PoolSize,
    PoolSizeStore,
    PoolState,
    ProcessReport,
    ServiceReports,
    ServiceState,
    wanted_size,
)
from cns_backend.stores.embedded.pool_sizes import EmbeddedPoolSizeStore
from cns_cli.activity import caller_name, recorded
from cns_cli.delivery.pool_table import described, table
from cns_cli.options import Data, Json
from cns_cli.output import print_json, refuse
from cns_cli.store_access import StoreSpec, open_stores, run_command
from cns_common.clock import Clock
from cns_common.configuration.settings import POOL_THREADS_MAX, load_settings

POLL_INTERVAL_S = 0.2
POLLS_MAX = 50
"""The limit of polls for running workers, which read sizes and report once a second."""
Result = TypeVar("Result")


class NoReports(ServiceReports):
    """The reports of a service that does not run."""

    async def state(self) -> ServiceState:
        return ServiceState("", (), ())


SIZES = StoreSpec(
    PoolSizeStore, "pool_sizes", EmbeddedPoolSizeStore, "cns_backend.stores.cassandra.pool_sizes:CassandraPoolSizeStore"
)
REPORTS = StoreSpec(
    ServiceReports, "control", lambda _: NoReports(), "cns_backend.stores.cassandra.control:CassandraReports"
)

app = typer.Typer(help="The delivery pools of the workers and their sizes.", no_args_is_help=True, add_completion=False)

PoolName = Annotated[str, typer.Argument(metavar="POOL", help="delivery, or redelivery.")]
PoolWorker = Annotated[str, typer.Option(metavar="PROCESS", help="This worker only, until it ends. Default: all.")]


@app.command("list")
def pool_list(
    gauges: Annotated[bool, typer.Option("--gauges", help="Add the workers' other gauges.")] = False,
    json: Json = False,
    data: Data = None,
) -> None:
    """Print the pools of every worker: threads, wanted size and its origin, sends in flight and waiting."""

    async def read(pools: WorkerPools) -> tuple[list[ProcessReport], list[PoolSize]]:
        return await pools.workers(), await pools.sizes.all()

    workers, sizes = _run(data, read)
    if json:
        print_json([described(workers, sizes)])
    elif workers:
        print(*table(workers, gauges=gauges), sep="\n")
    else:
        print("cns: no worker reports", file=sys.stderr)
        for size in sizes:
            print(f"{size.pool}: {size.threads} threads wanted by {size.set_by}, {timestamp_text(size.set_at_ms)}")


@app.command("resize")
def pool_resize(
    pool: PoolName,
    threads: Annotated[int, typer.Argument(metavar="THREADS", help="Threads in each worker, 1 to 64.")],
    worker: PoolWorker = "",
    data: Data = None,
    json: Json = False,
) -> None:
    """Set the number of threads of a pool, in running and future workers."""
    if not 1 <= threads <= POOL_THREADS_MAX:
        refuse(f"a pool has 1 to {POOL_THREADS_MAX} threads in each worker, not {threads}")
    size = PoolSize(pool=pool, worker=worker, threads=threads, set_by=caller_name(), set_at_ms=Clock().now_ms())
    detail = f"{worker or 'every worker'}, {threads} threads"
    with recorded(data, "ResizePool", pool, detail):
        reports = _change(pool, worker, data, lambda sizes: sizes.put(size))
    _print_sizes(pool, reports, json=json)


@app.command("reset")
def pool_reset(pool: PoolName, worker: PoolWorker = "", data: Data = None, json: Json = False) -> None:
    """Return a pool to the size in the settings."""
    with recorded(data, "ResetPool", pool, worker or "every worker"):
        reports = _change(pool, worker, data, lambda sizes: sizes.remove(pool, worker))
    _print_sizes(pool, reports, json=json)


@dataclass(frozen=True, slots=True)
class WorkerPools:
    """The wanted sizes of the pools, and the workers' reports of them."""

    sizes: PoolSizeStore
    reports: ServiceReports

    async def workers(self) -> list[ProcessReport]:
        """Return the reports of the running workers, by process name."""
        state = await self.reports.state()
        return sorted((report for report in state.reports if report.pools), key=lambda report: report.process)


def _change(
    pool: str, worker: str, data: Path | None, change: Callable[[PoolSizeStore], Awaitable[None]]
) -> list[ProcessReport]:
    """Change the wanted size, and wait for the effect. Returns the reports of the affected workers."""
    if pool not in POOLS:
        refuse(f"there is no pool {pool}: {' or '.join(POOLS)}")

    async def run(pools: WorkerPools) -> list[ProcessReport]:
        processes = [report.process for report in await pools.workers()]
        if worker and worker not in processes:
            refuse(f"no worker {worker} reports; workers: {', '.join(processes) or 'none'}")
        await change(pools.sizes)
        await _await_effect(pools, pool)
        return [report for report in await pools.workers() if worker in ("", report.process)]

    return _run(data, run)


def _print_sizes(pool: str, reports: list[ProcessReport], *, json: bool) -> None:
    threads = {report.process: _pool(report, pool).threads for report in reports}
    if json:
        print_json({"worker": worker, "pool": pool, "threads": n} for worker, n in threads.items())
    else:
        for worker, n in threads.items():
            print(f"{worker}: {pool} has {n} threads")


async def _await_effect(pools: WorkerPools, pool: str) -> None:
    """Wait until all workers report the wanted size of the pool, or print that some do not."""
    sizes = await pools.sizes.all()
    for _ in range(POLLS_MAX):
        if all(_follows(report, pool, sizes) for report in await pools.workers()):
            return
        await asyncio.sleep(POLL_INTERVAL_S)
    print("cns: some workers have not changed their pool yet; they will as soon as they can", file=sys.stderr)


def _follows(report: ProcessReport, pool: str, sizes: list[PoolSize]) -> bool:
    state, size = _pool(report, pool), wanted_size(sizes, pool, report.process)
    if size is None:
        return state.set_by == BY_SETTING
    return (state.threads, state.set_at_ms) == (size.threads, size.set_at_ms)


def _pool(report: ProcessReport, pool: str) -> PoolState:
    return next(state for state in report.pools if state.pool == pool)


def _run(data: Path | None, work: Callable[[WorkerPools], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with open_stores(load_settings(data), Clock(), SIZES, REPORTS) as access:
            return await work(WorkerPools(access.store(SIZES), access.store(REPORTS)))

    return run_command(run)
