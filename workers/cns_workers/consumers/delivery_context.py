"""The dependencies that all consumers of a worker share."""

from __future__ import annotations

from dataclasses import dataclass

from cns.delivery.notification_references import NotificationReferences
from cns.delivery.target import TargetCache
from cns.queue_port.contract import QueuePort
from cns_backend.stores.contract import RateStore
from cns_common.clock import Clock
from cns_workers.consumers.notification_cache import Notifications
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.observers.contract import Observers
from cns_workers.stats import Stats


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryContext:
    port: QueuePort
    notifications: Notifications
    references: NotificationReferences
    targets: TargetCache
    clock: Clock
    quarantine: Quarantine
    rates: RateStore
    stats: Stats
    observers: Observers
    client_errors_succeed: bool
    """Whether a 3xx or 4xx answer counts as delivered: see `judge`."""
