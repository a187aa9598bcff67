"""Reports, the clock and the state of the store, in the memory of the store host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection

import cns
from cns_backend.engines import engine_samples
from cns_backend.stores.contract import (
    CLOCK,
    PROBE_ASK_LIFE_S,
    REPORT_LIFE_S,
    ProbeRequest,
    ProcessReport,
    ServiceControl,
    ServiceState,
    store_process,
)
from cns_common.clock import Clock
from cns_common.metrics.catalogue import STORE_BYTES, STORE_COMMITS, STORE_WAL_BYTES
from cns_common.rpc.rpc import Server
from cns_common.sqlite.database import Database
from cns_common.sqlite.opening import PAGE_BYTES
from cqs.engines.contract import LocalEngine

_OWNERS = (
    "SELECT DISTINCT account FROM queues",
    "SELECT DISTINCT owner FROM subscriptions",
    "SELECT arn FROM topics",
    "SELECT arn FROM platform_applications",
)


class EmbeddedControl(ServiceControl):
    def __init__(self, database: Database, engines: Collection[LocalEngine], clock: Clock, server: Server) -> None:
        self._database = database
        self._engines = engines
        self._clock = clock
        self._server = server
        self._reports: dict[str, tuple[float, ProcessReport]] = {}
        self._probes: dict[tuple[str, str], tuple[float, ProbeRequest]] = {}

    async def clock_offset_ms(self) -> int:
        return self._clock.offset_ms

    async def clock_ms(self) -> int:
        return self._clock.now_ms()

    async def advance_clock(self, by_ms: int) -> int:
        self._clock.advance(by_ms)
        self._server.broadcast(CLOCK, self._clock.offset_ms)
        return self._clock.offset_ms

    async def owners(self) -> list[str]:
        found: set[str] = set()
        for statement in _OWNERS:
            found |= {
                str(text).split(":", 5)[4] if ":" in text else text
                for (text,) in self._database.reader.execute(statement)
            }
        return sorted(found)

    async def report(self, report: ProcessReport) -> None:
        self._reports[report.process] = (asyncio.get_running_loop().time(), report)

    async def retire(self, process: str) -> None:
        self._reports.pop(process, None)

    async def ask_probe(self, account: str, endpoint: str) -> None:
        now_s = asyncio.get_running_loop().time()
        self._probes[(account, endpoint)] = (now_s, ProbeRequest(account, endpoint, self._clock.now_ms()))

    async def asked_probes(self) -> list[ProbeRequest]:
        now_s = asyncio.get_running_loop().time()
        self._probes = {key: asked for key, asked in self._probes.items() if now_s - asked[0] < PROBE_ASK_LIFE_S}
        return [request for _, request in self._probes.values()]

    async def state(self) -> ServiceState:
        from cns_common.metrics.page import process_samples  # prometheus_client takes long to import

        now_s = asyncio.get_running_loop().time()
        self._reports = {
            process: (at_s, report) for process, (at_s, report) in self._reports.items() if now_s - at_s < REPORT_LIFE_S
        }
        samples = (
            STORE_COMMITS.sample(self._database.commits),
            STORE_BYTES.sample(self._database.file_bytes),
            STORE_WAL_BYTES.sample(self._database.wal_pages * PAGE_BYTES),
            *engine_samples(self._engines),
            *[sample.labelled("process", store_process(os.getpid())) for sample in process_samples(cns.__version__)],
        )
        reports = tuple(report for _, report in self._reports.values())
        return ServiceState(self._database.failure, reports, samples, self._clock.warning(), self._database.full())
