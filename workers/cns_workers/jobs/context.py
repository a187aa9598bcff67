"""The dependencies that producers and consumers share."""

from __future__ import annotations

from dataclasses import dataclass

from cns.delivery.notification_references import NotificationReferences
from cns.delivery.observers.contract import NO_OBSERVERS, Observers
from cns.queue_port.contract import QueuePort
from cns_common.clock import Clock
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.stats import Stats


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    port: QueuePort
    references: NotificationReferences
    quarantine: Quarantine
    stats: Stats
    clock: Clock
    observers: Observers = NO_OBSERVERS
