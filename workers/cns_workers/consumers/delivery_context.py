"""The dependencies that all consumers of a worker share."""

from __future__ import annotations

from dataclasses import dataclass

from cns.delivery.target import TargetCache
from cns_backend.stores.contract import RateStore
from cns_workers.consumers.notification_cache import Notifications
from cns_workers.jobs.context import JobContext


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryContext(JobContext):
    notifications: Notifications
    targets: TargetCache
    rates: RateStore
    client_errors_succeed: bool
    """Whether a 3xx or 4xx answer counts as delivered: see `judge`."""
