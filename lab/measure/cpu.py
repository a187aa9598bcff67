"""The CPU time of a span by process: service, endpoints, generator, and others."""

from __future__ import annotations

import resource
from collections.abc import Callable
from time import perf_counter

import msgspec

from lab.harness.server import Server
from lab.harness.usage import machine_cpu_s
from lab.measure.figures import cores


class CpuShares(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of one core; `others_share` is a share of all cores."""

    seconds: float
    service: float
    endpoints: float
    generator: float
    others_share: float

    @property
    def text(self) -> str:
        return f"{self.service:.0%}, {self.endpoints:.0%}, {self.generator:.0%}"


class CpuClock:
    """Measures from its construction to `read`."""

    def __init__(self, server: Server, endpoints_s: Callable[[], float]) -> None:
        self._server = server
        self._endpoints_s = endpoints_s
        self._used = self._snapshot()
        self._began_s = perf_counter()

    def read(self) -> CpuShares:
        seconds = perf_counter() - self._began_s
        machine, service, endpoints, generator = (
            (now - then) / seconds for now, then in zip(self._snapshot(), self._used, strict=True)
        )
        others = max(machine - service - endpoints - generator, 0.0)
        return CpuShares(
            seconds=round(seconds, 3),
            service=round(service, 3),
            endpoints=round(endpoints, 3),
            generator=round(generator, 3),
            others_share=round(others / cores(), 3),
        )

    def _snapshot(self) -> tuple[float, float, float, float]:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return machine_cpu_s(), self._server.cpu_s(), self._endpoints_s(), own.ru_utime + own.ru_stime
