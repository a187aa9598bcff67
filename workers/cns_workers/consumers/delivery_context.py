"""The dependencies that all consumers of a worker share."""

from __future__ import annotations

from dataclasses import dataclass

from cns.delivery.notification_references import NotificationReferences
from cns.delivery.target import TargetCache
from cns.queue_port.contract import QueuePort
from cns_backend.stores.contract import RateStore
from cns_common.clock import Clock
from cns_common.events.schema import EventSink
from cns_common.traces.contract import Spans
from cns_workers.consumers.job_events import NO_DELIVERY_LOG
from cns_workers.consumers.notification_cache import Notifications
from cns_workers.delivery.logs.logger import AttemptLog
from cns_workers.jobs.quarantine import Quarantine
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
    events: EventSink
    client_errors_succeed: bool
    """Whether a 3xx or 4xx answer counts as delivered: see `judge`."""
    delivery_log: AttemptLog = NO_DELIVERY_LOG
    spans: Spans | None = None
