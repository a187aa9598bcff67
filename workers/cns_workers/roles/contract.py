"""The parts that a worker process shares with its roles, and the methods that each role has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cns.delivery.notification_references import NotificationReferences
from cns.queue_port.contract import QueuePort
from cns_backend.backend import Backend
from cns_common.configuration.settings import Settings
from cns_common.events.audit_log import AuditLog
from cns_common.events.writer import EventLog
from cns_common.metrics.model import Sample
from cns_common.traces.contract import Spans
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.loops import Step
from cns_workers.stats import Stats
from cqs.service import QueueService


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """The parts of a worker process that all of its roles use."""

    settings: Settings
    backend: Backend
    port: QueuePort
    queues: QueueService
    audit: AuditLog
    events: EventLog
    stats: Stats
    quarantine: Quarantine
    references: NotificationReferences
    process: str
    spans: Spans | None = None


class DrainResult(NamedTuple):
    """Work that a role left over at its end."""

    jobs_given_back: int = 0
    sends_unfinished: int = 0


class Role(Protocol):
    """One role of a running worker."""

    @property
    def sleeping_loops(self) -> tuple[str, ...]:
        """The loops that sleep between their steps, so that a stop cancels them."""
        ...

    def steps(self) -> Mapping[str, Step]:
        """The step of each loop, by its name."""
        ...

    def samples(self) -> list[Sample]: ...

    async def leave(self) -> None:
        """Begin no more work. Called when the loops have ended."""
        ...

    async def drain(self, grace_s: float) -> DrainResult:
        """End the work in progress, and give back the rest."""
        ...
