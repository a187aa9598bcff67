"""The worker process: its roles over one backend, their loops, and what it reports of itself."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import structlog

import cns
from cns.delivery import jobs
from cns.delivery.notification_references import NotificationReferences
from cns_backend.backend import Backend
from cns_backend.queue_port import queue_port
from cns_backend.services import audit_log, event_log, queue_service, span_recorder
from cns_backend.stores.contract import REPORT_INTERVAL_S, ProcessReport
from cns_common.configuration.settings import Settings
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.metrics.catalogue import QUARANTINE_JOBS, WORKER_ROLES
from cns_common.metrics.model import Sample
from cns_common.metrics.page import process_samples
from cns_common.task_cancellation import in_daemon, wait_at_most
from cns_common.worker_roles import WorkerRole
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.loops import Loops
from cns_workers.roles.consumer_role import ConsumerRole
from cns_workers.roles.contract import DrainResult, Role, WorkerContext
from cns_workers.roles.maintenance_role import MaintenanceRole
from cns_workers.roles.producer_role import ProducerRole
from cns_workers.stats import Stats
from cqs.messages.count_report import COUNTS_INTERVAL_S, QueueCountReporter

DRAIN_S = 20.0
STEP_GRACE_S = 5.0
CLOSE_S_MAX = 5.0
"""The time to end connections to CQS, and again to export the last spans."""
SLEEPING_LOOPS = ("report", "counts")
"""Loops of every worker that sleep between their steps, so that a stop cancels them."""

log = structlog.get_logger(__name__)


class Worker:
    """`consumer` and `maintenance` are None in a worker without that role."""

    def __init__(
        self,
        context: WorkerContext,
        producer: ProducerRole | None,
        consumer: ConsumerRole | None,
        maintenance: MaintenanceRole | None,
    ) -> None:
        self._context = context
        self.consumer = consumer
        self.maintenance = maintenance
        self.names = context.settings.worker_roles
        self._roles: list[Role] = [role for role in (producer, consumer, maintenance) if role is not None]
        self._queue_counts = QueueCountReporter(
            context.queues.counters, context.queues.cache, context.events, context.backend.clock
        )
        self._loops = Loops()

    @classmethod
    async def build(cls, settings: Settings, backend: Backend) -> Worker:
        context = await _context(settings, backend)
        names = settings.worker_roles
        return cls(
            context,
            ProducerRole(context) if WorkerRole.PRODUCER in names else None,
            await ConsumerRole.build(context) if WorkerRole.CONSUMER in names else None,
            MaintenanceRole(context) if WorkerRole.MAINTENANCE in names else None,
        )

    async def run(self, until: asyncio.Future[None]) -> None:
        """Work until `until` is done. Then take no more jobs, let sends end, and give back the rest."""
        context = self._context
        for role in self._roles:
            for name, step in role.steps().items():
                self._loops.start(name, step)
        self._loops.start("report", self._report)
        self._loops.start("counts", self._report_counts)
        await until
        context.port.stop_waiting()
        sleeping = tuple(name for role in self._roles for name in role.sleeping_loops)
        await self._loops.stop(cancel=(*SLEEPING_LOOPS, *sleeping), grace_s=STEP_GRACE_S)
        for role in self._roles:
            await role.leave()
        await self._retire()
        drained = DrainResult()
        for role in self._roles:
            left = await role.drain(DRAIN_S)
            drained = DrainResult(*map(sum, zip(drained, left, strict=True)))
        await wait_at_most(CLOSE_S_MAX, "queue_port.close", context.port.close())
        await self._queue_counts.report()
        context.events.close()
        context.audit.close()
        if context.spans is not None:
            await wait_at_most(CLOSE_S_MAX, "spans.close", in_daemon(context.spans.close))
        log.info("worker.stopped", roles=[*map(str, self.names)], **drained._asdict())

    async def _report(self) -> None:
        context = self._context
        samples = [
            *process_samples(cns.__version__),
            *[WORKER_ROLES.sample(1, role=role) for role in self.names],
            *context.stats.samples(),
            context.stats.dropped_recently(context.backend.clock.now_ms()),
            *context.stats.job_waits.samples(),
            *context.stats.fanouts.samples(),
            *context.events.samples(),
            *self._queue_counts.samples(),
            *context.audit.samples(),
            *context.backend.samples(),
            *await self._quarantine_depth(),
        ]
        for role in self._roles:
            samples += role.samples()
        pools = self.consumer.resizer.states() if self.consumer is not None else ()
        breakers = await self.consumer.report_breakers() if self.consumer is not None else ()
        await context.backend.control.report(
            ProcessReport(
                context.process, "worker", tuple(self._loops.failing), tuple(samples), pools, self.names, breakers
            )
        )
        await asyncio.sleep(REPORT_INTERVAL_S)

    async def _report_counts(self) -> None:
        await asyncio.sleep(COUNTS_INTERVAL_S)
        await self._queue_counts.report()

    async def _retire(self) -> None:
        """Withdraw the last report. It would expire by itself, but until then commands would wait for these pools."""
        with suppress(TimeoutError, StoreUnavailable, OutcomeUnknown):
            async with asyncio.timeout(REPORT_INTERVAL_S):
                await self._context.backend.control.retire(self._context.process)

    async def _quarantine_depth(self) -> list[Sample]:
        """Returns no sample while the queues cannot be asked: the report of failing loops must still go out."""
        try:
            async with asyncio.timeout(REPORT_INTERVAL_S):
                depth = await self._context.port.depth(jobs.QUARANTINE)
        except (TimeoutError, StoreUnavailable, OutcomeUnknown):
            return []
        return [QUARANTINE_JOBS.sample(depth)]


async def _context(settings: Settings, backend: Backend) -> WorkerContext:
    audit = audit_log(settings, "worker", backend.clock)
    queues = await queue_service(settings, backend, audit)
    port = await queue_port(settings, backend, queues)
    stats = Stats()
    return WorkerContext(
        settings=settings,
        backend=backend,
        port=port,
        queues=queues,
        audit=audit,
        events=event_log(settings, "worker", backend.clock),
        stats=stats,
        quarantine=Quarantine(port, backend.leases, backend.clock, stats),
        references=NotificationReferences(backend.notifications, backend.clock),
        process=f"worker-{os.getpid()}",
        spans=span_recorder(settings, "worker"),
    )
