"""Checks of deliveries: endpoints that are down now, and messages that were dropped within the last hour."""

from __future__ import annotations

import asyncio
from collections import Counter

from cns.delivery.failure_causes import is_of_concern, why_failed
from cns.endpoints.outcome import Cause
from cns_backend.backend import Backend
from cns_cli.doctor.findings import CheckResult, ok, shown, warning
from cns_common.configuration.settings import Settings
from cns_common.durations import HOUR_S
from cns_common.events.recent_events import DeliveryEvent, newest_events
from cns_common.events.schema import NotificationDropped

DROPS_READ_MAX = 10_000
_MARK = b'"event":"notification.dropped"'


async def check_deliveries(settings: Settings, backend: Backend) -> list[CheckResult]:
    since_ms = backend.clock.now_ms() - HOUR_S * 1_000
    return [*await _breakers(backend), *await asyncio.to_thread(_drops, settings, since_ms)]


async def _breakers(backend: Backend) -> list[CheckResult]:
    """From the reports of workers on all machines; a service that does not run has none."""
    reports = (await backend.control.state()).reports
    causes = {one.endpoint: one.cause for report in reports for one in report.breakers}
    found = []
    for endpoint, cause in sorted(causes.items()):
        text = f"the circuit breaker of {endpoint} is open, its messages wait for an hour at most: {cause}"
        found.append(warning("endpoints", text, why_failed(Cause.CONNECTION).advice))
    return shown(found, ok("endpoints", "no circuit breaker is open"))


def _drops(settings: Settings, since_ms: int) -> list[CheckResult]:
    """Drops in the events of this machine."""
    if settings.events == "off":
        return [ok("drops", "events are off (CNS_EVENTS=off): what was dropped is not recorded")]

    def is_new_drop(event: DeliveryEvent) -> bool:
        return isinstance(event, NotificationDropped) and event.at_ms >= since_ms and is_of_concern(event.cause)

    events = newest_events([settings.events_path], _MARK, [_MARK], is_new_drop, DROPS_READ_MAX).events
    counts: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], NotificationDropped] = {}
    for event in events:
        if isinstance(event, NotificationDropped):
            key = event.topic or "no topic", event.cause
            counts[key] += max(event.subscriptions, 1)
            last.setdefault(key, event)
    found = []
    for key, n in counts.most_common():
        (topic, cause), newest = key, last[key]
        why = why_failed(cause, newest.reason)
        text = f"{n} dropped within the last hour, of {topic}: {why.title} ({cause})"
        found.append(warning("drops", text, f"{why.advice} cns explain {newest.message_id}".strip()))
    return shown(found, ok("drops", "none seen of the last hour"))
