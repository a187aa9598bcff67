"""The page about the service itself: health, figures of deliveries, workers and their pools, which operators resize."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from fastapi import FastAPI, Request, Response

from cns_backend.stores.contract import EVERY_WORKER, POOLS, PoolSize, ProcessReport, ServiceState
from cns_common.configuration.settings import POOL_THREADS_MAX
from cns_common.metrics.catalogue import (
    CIRCUIT_BREAKERS_OPEN,
    LANES_WAITING,
    POOL_SENDS_IN_FLIGHT,
    QUARANTINE_JOBS,
    SENDS_DEFERRED,
    SENDS_OVERDUE,
)
from cns_common.metrics.model import Metric
from cns_server.pages.context import PageContext, done
from cns_server.pages.live import live_response
from cns_server.pages.sources import PageSources
from cns_server.rest.calls import RestCall
from cns_server.rest.problems import Problem

_SHOWN: tuple[tuple[str, Metric], ...] = (
    ("Sends in flight", POOL_SENDS_IN_FLIGHT),
    ("Overdue", SENDS_OVERDUE),
    ("Breakers open", CIRCUIT_BREAKERS_OPEN),
    ("Lanes waiting", LANES_WAITING),
    ("Sends deferred", SENDS_DEFERRED),
    ("In quarantine", QUARANTINE_JOBS),
)


class Total(NamedTuple):
    title: str
    value: int
    help: str


class ServicePages:
    def __init__(self, context: PageContext, sources: PageSources) -> None:
        self._context = context
        self._health = sources.health
        self._backend = sources.backend

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/service", self.show, methods=["GET"])
        app.add_api_route("/service/live", self.live, methods=["GET"])
        app.add_api_route("/service/pools", self.resize, methods=["POST"])
        app.add_api_route("/service/pools/reset", self.reset, methods=["POST"])

    async def show(self, request: Request) -> Response:
        session = await self._context.session(request)
        state = await self._backend.control.state()
        return self._context.page(
            request,
            "service.html",
            session,
            health=await self._health(),
            pools=[(report.process, pool) for report in state.reports for pool in report.pools],
            totals=_totals(state.reports),
            pool_names=POOLS,
            threads_max=POOL_THREADS_MAX,
        )

    async def live(self, request: Request) -> Response:
        """The sums as server-sent events, while the page is open."""
        session = await self._context.session(request)
        return live_response(request, self._context, session, await self._figures(), self._figures)

    async def _figures(self) -> str:
        state = await self._backend.control.state()
        return msgspec.json.encode({total.title: total.value for total in _totals(state.reports)}).decode()

    async def resize(self, request: Request) -> Response:
        """The size of a pool in one worker, or in all, as `cns pool resize`."""
        _, rest, form = await self._context.posted(request)
        pool, worker, threads = form.text("pool"), form.text("worker"), form.number("threads") or 0
        work = self._resize(rest, pool, worker, threads)
        await self._context.act(rest, "ResizePool", work, pool, f"{worker or 'every worker'}, {threads} threads")
        return done("/ui/service", "resized")

    async def _resize(self, rest: RestCall, pool: str, worker: str, threads: int) -> None:
        self._context.check_operator(rest)
        await self._check_pool(pool, worker)
        if not 1 <= threads <= POOL_THREADS_MAX:
            raise Problem(400, "InvalidRequest", f"A pool has 1 to {POOL_THREADS_MAX} threads in each worker.")
        now_ms = self._backend.clock.now_ms()
        size = PoolSize(pool=pool, worker=worker, threads=threads, set_by="operator (pages)", set_at_ms=now_ms)
        await self._backend.pool_sizes.put(size)

    async def reset(self, request: Request) -> Response:
        _, rest, form = await self._context.posted(request)
        await self._context.act(rest, "ResetPool", self._reset(rest, form.text("pool")), form.text("pool"))
        return done("/ui/service", "resized")

    async def _reset(self, rest: RestCall, pool: str) -> None:
        self._context.check_operator(rest)
        await self._check_pool(pool, EVERY_WORKER)
        await self._backend.pool_sizes.remove(pool, EVERY_WORKER)

    async def _check_pool(self, pool: str, worker: str) -> None:
        if pool not in POOLS:
            raise Problem(400, "InvalidRequest", f"There is no such pool: it is {' or '.join(POOLS)}.")
        state: ServiceState = await self._backend.control.state()
        if worker and not any(report.process == worker and report.pools for report in state.reports):
            raise Problem(404, "NoSuchWorker", "No worker of this name reports.")


def _totals(reports: Iterable[ProcessReport]) -> list[Total]:
    """Sums over all workers."""
    sums: dict[str, float] = {}
    for report in reports:
        for sample in report.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    # each worker reports the jobs in quarantine, which are all workers'
    workers = sum([bool(report.pools) for report in reports]) or 1
    sums[QUARANTINE_JOBS.name] = sums.get(QUARANTINE_JOBS.name, 0) / workers
    return [Total(title, int(sums.get(metric.name, 0)), metric.help) for title, metric in _SHOWN]
