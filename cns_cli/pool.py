"""`cns pool …`: what the delivery pools of all workers do, and how many threads each is to have."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import msgspec
import typer

from cns.delivery.envelope import timestamp_text
from cns_backend.stores.contract import (
    BY_SETTING,
    POOLS,
    PoolSize,
    PoolSizeStore,
    PoolState,
    Report,
    ServiceReports,
    ServiceState,
    wanted_size,
)
from cns_backend.stores.embedded.pool_sizes import EmbeddedPoolSizeStore
from cns_cli.options import Data
from cns_cli.pool_table import described, table
from cns_cli.store import Kept, embedded_stores, require_store, run_command
from cns_common.clock import Clock
from cns_common.configuration.settings import POOL_THREADS_MAX, Settings, load_settings

EXIT_USAGE = 2
POLL_INTERVAL_S = 0.2
LOOKS_MAX = 50
"""Until running workers have followed, which look once a second and report once a second."""
Result = TypeVar("Result")

app = typer.Typer(help="The delivery pools of the workers and their sizes.", no_args_is_help=True, add_completion=False)

PoolName = Annotated[str, typer.Argument(metavar="POOL", help="delivery, or redelivery.")]
PoolWorker = Annotated[
    str, typer.Option(metavar="PROCESS", help="Of this worker only, until it ends. [default: of all]")
]


@app.command("list")
def pool_list(
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, for programs.")] = False,
    data: Data = None,
) -> None:
    """Print the pools of every worker: threads, what was wanted by whom, sends in flight and waiting."""

    async def look(site: Site) -> tuple[list[Report], list[PoolSize]]:
        return await site.workers(), await site.sizes.all()

    workers, sizes = _run(data, look)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(described(workers, sizes))).decode())
    elif workers:
        print(*table(workers), sep="\n")
    else:
        print("cns: no worker reports", file=sys.stderr)
        for size in sizes:
            print(f"{size.pool}: {size.threads} threads wanted by {size.set_by}, {timestamp_text(size.set_at_ms)}")


@app.command("resize")
def pool_resize(
    pool: PoolName,
    threads: Annotated[int, typer.Argument(metavar="THREADS", help="In each worker, 1 to 64.")],
    worker: PoolWorker = "",
    data: Data = None,
) -> None:
    """Give a pool so many threads, in the workers that run and in those to come."""
    if not 1 <= threads <= POOL_THREADS_MAX:
        _refuse(f"a pool has 1 to {POOL_THREADS_MAX} threads in each worker, not {threads}")
    size = PoolSize(pool=pool, worker=worker, threads=threads, set_by=_caller(), set_at_ms=Clock().now_ms())
    _change(pool, worker, data, lambda sizes: sizes.put(size))


@app.command("reset")
def pool_reset(pool: PoolName, worker: PoolWorker = "", data: Data = None) -> None:
    """Give a pool the threads that the settings say."""
    _change(pool, worker, data, lambda sizes: sizes.remove(pool, worker))


@dataclass(frozen=True, slots=True)
class Site:
    """What a command reaches."""

    sizes: PoolSizeStore
    reports: ServiceReports

    async def workers(self) -> list[Report]:
        """Those that run."""
        state = await self.reports.state()
        return sorted((report for report in state.reports if report.pools), key=lambda report: report.process)


def _change(pool: str, worker: str, data: Path | None, change: Callable[[PoolSizeStore], Awaitable[None]]) -> None:
    if pool not in POOLS:
        _refuse(f"there is no pool {pool}: {' or '.join(POOLS)}")

    async def run(site: Site) -> list[Report]:
        processes = [report.process for report in await site.workers()]
        if worker and worker not in processes:
            _refuse(f"no worker {worker} reports; those that do: {', '.join(processes) or 'none'}")
        await change(site.sizes)
        await _effect(site, pool)
        return [report for report in await site.workers() if worker in ("", report.process)]

    for report in _run(data, run):
        state = _pool(report, pool)
        print(f"{report.process}: {pool} has {state.threads} threads")


async def _effect(site: Site, pool: str) -> None:
    """Wait until the workers have what they are to have."""
    sizes = await site.sizes.all()
    for _ in range(LOOKS_MAX):
        if all(_follows(report, pool, sizes) for report in await site.workers()):
            return
        await asyncio.sleep(POLL_INTERVAL_S)
    print("cns: not all workers have followed so far; they do when they can", file=sys.stderr)


def _follows(report: Report, pool: str, sizes: list[PoolSize]) -> bool:
    state, size = _pool(report, pool), wanted_size(sizes, pool, report.process)
    if size is None:
        return state.set_by == BY_SETTING
    return (state.threads, state.set_at_ms) == (size.threads, size.set_at_ms)


def _pool(report: Report, pool: str) -> PoolState:
    return next(state for state in report.pools if state.pool == pool)


def _caller() -> str:
    """A container may run us as a user that has no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def _refuse(reason: str) -> NoReturn:
    print(f"cns: {reason}", file=sys.stderr)
    sys.exit(EXIT_USAGE)


def _run(data: Path | None, work: Callable[[Site], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with _site(load_settings(data)) as site:
            return await work(site)

    return run_command(run)


@asynccontextmanager
async def _site(settings: Settings) -> AsyncIterator[Site]:
    if settings.store == "cassandra":
        from cns_backend.cluster import open_session  # with drivers that only this form has installed
        from cns_backend.stores.cassandra.control import CassandraReports
        from cns_backend.stores.cassandra.pool_sizes import CassandraPoolSizeStore

        async with open_session(settings) as (cassandra, _):
            yield Site(CassandraPoolSizeStore(cassandra), CassandraReports(cassandra))
        return
    require_store(settings)
    kept = (
        Kept(PoolSizeStore, "pool_sizes", EmbeddedPoolSizeStore),
        Kept(ServiceReports, "control", lambda _: NobodyReports()),
    )
    async with embedded_stores(settings, Clock(), *kept) as (sizes, reports):
        yield Site(sizes, reports)


class NobodyReports:
    """See `cns_backend.stores.embedded.control.ServiceReports`: the service does not run."""

    async def state(self) -> ServiceState:
        return ServiceState("", (), ())
