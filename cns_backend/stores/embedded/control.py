"""What the store host knows of the whole service and answers about it: clock, workers' reports, state of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Literal, Protocol

import msgspec

from cns_backend.engines import engine_samples
from cns_backend.stores.embedded.pool_sizes import PoolState
from cns_common.clock import Clock
from cns_common.metrics.catalogue import STORE_COMMITS, STORE_WAL_BYTES
from cns_common.metrics.model import Sample
from cns_common.rpc.rpc import Server
from cns_common.sqlite.database import Database
from cns_common.sqlite.opening import PAGE_BYTES
from cqs.engines.contract import LocalEngine

REPORT_S = 1.0
REPORT_LIFE_S = 5.0
"""A worker that has not reported for so long is not counted on."""
CLOCK = "clock"


class Report(msgspec.Struct, frozen=True):
    """One process's state, sent every `REPORT_S`."""

    process: str
    role: Literal["api", "worker"]
    failing: tuple[str, ...]
    samples: tuple[Sample, ...]
    pools: tuple[PoolState, ...] = ()


class HostState(msgspec.Struct, frozen=True):
    """The host's own view."""

    store_failure: str
    reports: tuple[Report, ...]
    samples: tuple[Sample, ...]
    clock_warning: str = ""
    """What is wrong with the wall clock of the host's machine, for a person; or ''."""
    store_full: str = ""
    """Why nothing that makes the store larger can be written, for a person; or ''."""


class HostReports(Protocol):
    """What of `HostControl` only looks."""

    async def state(self) -> HostState: ...


class HostControl(Protocol):
    """The host, to every process."""

    async def clock_offset_ms(self) -> int: ...

    async def clock_ms(self) -> int:
        """The time of messages as the host has it, which no other process may be behind."""
        ...

    async def advance_clock(self, by_ms: int) -> int:
        """Move every process's test clock; returns the new offset."""
        ...

    async def report(self, report: Report) -> None: ...

    async def retire(self, process: str) -> None:
        """This process ends: its report is not to be counted on any more."""
        ...

    async def state(self) -> HostState: ...


class LocalControl:
    """See `HostControl`; lives in the store host."""

    def __init__(self, database: Database, engines: Collection[LocalEngine], clock: Clock, server: Server) -> None:
        self._database = database
        self._engines = engines
        self._clock = clock
        self._server = server
        self._reports: dict[str, tuple[float, Report]] = {}

    async def clock_offset_ms(self) -> int:
        return self._clock.offset_ms

    async def clock_ms(self) -> int:
        return self._clock.now_ms()

    async def advance_clock(self, by_ms: int) -> int:
        self._clock.advance(by_ms)
        self._server.broadcast(CLOCK, self._clock.offset_ms)
        return self._clock.offset_ms

    async def report(self, report: Report) -> None:
        self._reports[report.process] = (asyncio.get_running_loop().time(), report)

    async def retire(self, process: str) -> None:
        self._reports.pop(process, None)

    async def state(self) -> HostState:
        now_s = asyncio.get_running_loop().time()
        self._reports = {
            process: (at_s, report) for process, (at_s, report) in self._reports.items() if now_s - at_s < REPORT_LIFE_S
        }
        samples = (
            STORE_COMMITS.sample(self._database.commits),
            STORE_WAL_BYTES.sample(self._database.wal_pages * PAGE_BYTES),
            *engine_samples(self._engines),
        )
        reports = tuple(report for _, report in self._reports.values())
        return HostState(self._database.failure, reports, samples, self._clock.warning(), self._database.full())
