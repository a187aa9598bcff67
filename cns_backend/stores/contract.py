"""The stores that all processes share besides topics and queues: leases, rates, pool sizes, process reports."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from cns_common.clock import Clock
from cns_common.cluster.lease import Lease, LeaseTimes
from cns_common.metrics.model import Sample
from cns_common.token_bucket import TokenGrant

# -- leases ------------------------------------------------------------------------------------------------------------


class LeaseStore(Protocol):
    """Leases on parts of tasks. A lease expires by itself."""

    async def take(self, task: str, part: str, holder: str, life_ms: int, now_ms: int) -> bool:
        """Take or renew the lease until `now_ms + life_ms`. False while another holder has it."""
        ...

    async def give_back(self, task: str, part: str, holder: str) -> None:
        """End the lease early; without effect unless `holder` has it."""
        ...


class TaskLease:
    """The lease on one part of a task, for one holder."""

    def __init__(self, store: LeaseStore, task: str, part: str, holder: str, life_ms: int, clock: Clock) -> None:
        self._store = store
        self._task = task
        self._part = part
        self._holder = holder
        self._life_ms = life_ms
        self._clock = clock
        self._lease = Lease(clock, LeaseTimes(life_ms * 2 // 3, life_ms // 3))

    async def take(self) -> bool:
        """Take or renew it. False while another holder has it."""
        now_ms = self._clock.now_ms()
        return await self._lease.extend(self._store.take(self._task, self._part, self._holder, self._life_ms, now_ms))

    async def keep(self) -> bool:
        """Renew it when that is due. False when it is lost."""
        return not self._lease.is_due or await self.take()

    async def give_back(self) -> None:
        await self._store.give_back(self._task, self._part, self._holder)


# -- rates -------------------------------------------------------------------------------------------------------------

LATE_MAIL_S = 3
"""Mails whose second is this much older than the newest one are not counted: see `cns.mail.rate_limit`."""


class RateStore(Protocol):
    """Rate limits that all workers share. The counts are not durable."""

    async def take_tokens(self, bucket: str, per_second: int, wanted: int) -> TokenGrant:
        """Take up to `wanted` tokens of a bucket: see `cns_common.token_bucket`."""
        ...

    async def admit_mail(self, subscription: str, second: int, message_id: str, limit: int) -> bool:
        """See `cns.mail.rate_limit.MailCounts`."""
        ...


# -- sizes of delivery pools -------------------------------------------------------------------------------------------

DELIVERY = "delivery"
REDELIVERY = "redelivery"
POOLS = (DELIVERY, REDELIVERY)
EVERY_WORKER = ""
BY_SETTING = "setting"


class PoolSize(msgspec.Struct, frozen=True, kw_only=True):
    """The number of threads that an operator set for a pool. `worker` is the name of a process, or EVERY_WORKER."""

    pool: str
    worker: str = EVERY_WORKER
    threads: int
    set_by: str
    set_at_ms: int


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """One pool of a worker, as the worker reports it."""

    pool: str
    threads: int
    draining: int = msgspec.field(name="leaving")  # version 0.1 reads these names in reports
    blocked: int = msgspec.field(name="silent")
    in_flight: int
    waiting: int
    wanted: int
    set_by: str
    set_at_ms: int


class PoolSizeStore(Protocol):
    """Sizes that an operator set. They outlive the workers and take precedence over their settings."""

    async def put(self, size: PoolSize) -> None:
        """Replace the former size. A size for every worker also removes the sizes of single workers."""
        ...

    async def remove(self, pool: str, worker: str) -> None:
        """EVERY_WORKER removes all sizes of the pool."""
        ...

    async def all(self) -> list[PoolSize]:
        """Sorted by pool and worker."""
        ...


def wanted_size(sizes: list[PoolSize], pool: str, worker: str) -> PoolSize | None:
    """The size for a worker: its own, else that of every worker. None: the worker's setting applies."""
    found = {size.worker: size for size in sizes if size.pool == pool}
    return found.get(worker) or found.get(EVERY_WORKER)


# -- reports and the clock ---------------------------------------------------------------------------------------------

CLOCK = "clock"
"""The event that tells other processes the offset of the test clock."""
REPORT_INTERVAL_S = 1.0
REPORT_LIFE_S = 5.0
"""A worker without a report for this long counts as gone."""
PROBE_ASK_LIFE_S = 10.0


class OpenBreaker(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint whose circuit breaker is open, as a worker reports it. Times are the service's."""

    account: str
    endpoint: str  # without the user and password of a URL
    since_ms: int
    probe_at_ms: int  # of the next send that probes it
    cause: str  # of the last failure
    in_flight: int
    topics: tuple[str, ...] = ()  # some of those whose messages it failed to take; an older version reports none


class ProcessReport(msgspec.Struct, frozen=True):
    """One process's state, sent every `REPORT_INTERVAL_S`."""

    process: str
    role: Literal["api", "worker"]
    failing: tuple[str, ...]  # background loops
    samples: tuple[Sample, ...]
    pools: tuple[PoolState, ...] = ()
    roles: tuple[str, ...] = ()  # of a worker; an older version reports none, and has all
    breakers: tuple[OpenBreaker, ...] = ()  # a number of them, if very many are open


class ProbeRequest(msgspec.Struct, frozen=True):
    account: str
    endpoint: str  # as in `OpenBreaker`
    asked_ms: int


class ServiceState(msgspec.Struct, frozen=True):
    """The store and the processes that report. The texts are for people, and empty while there is nothing to say."""

    store_failure: str
    reports: tuple[ProcessReport, ...]
    samples: tuple[Sample, ...]
    clock_warning: str = ""
    store_full: str = ""
    """Why writes that would grow the store are refused."""


def store_process(pid: int) -> str:
    """The name of the store host's process in the label `process`."""
    return f"store-{pid}"


class ServiceReports(Protocol):
    """The part of `ServiceControl` that only reads."""

    async def state(self) -> ServiceState: ...


class ServiceControl(Protocol):
    """Reports of all processes, and the clock that they share."""

    async def clock_offset_ms(self) -> int:
        """The offset of the test clock."""
        ...

    async def clock_ms(self) -> int:
        """The current time for messages. No process may be behind it."""
        ...

    async def advance_clock(self, by_ms: int) -> int:
        """Advance the test clock of every process. Returns the new offset."""
        ...

    async def owners(self) -> list[str]:
        """The accounts that have queues, topics, subscriptions or platform applications, known or not. Scans the
        store: for rare acts only."""
        ...

    async def report(self, report: ProcessReport) -> None: ...

    async def retire(self, process: str) -> None:
        """Remove the report of a process that ends."""
        ...

    async def ask_probe(self, account: str, endpoint: str) -> None:
        """Ask the workers to probe an endpoint with an open circuit breaker now. In a cluster the last of several
        calls within a second counts."""
        ...

    async def asked_probes(self) -> list[ProbeRequest]:
        """The probes that were asked for within the last `PROBE_ASK_LIFE_S`."""
        ...

    async def state(self) -> ServiceState: ...
