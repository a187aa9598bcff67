"""The health of endpoints as lines of text."""

from __future__ import annotations

from cns.delivery.failure_causes import failure_text
from cns_common.endpoint_health import EndpointHealth, UnhealthyEndpoint
from cns_pipeline.health.document import Health
from cns_pipeline.reports.findings.endpoints import find_unhealthy
from cns_pipeline.reports.text import count, counted, milliseconds, moment, plain, share, span

SHOWN_MAX = 20


def health_lines(health: Health) -> list[str]:
    """Describe the results of the health job in its period."""
    judged = f"{counted(health.endpoints, 'endpoint')} {span(health.since_ms, health.until_ms)} UTC, judged by "
    known = f"{counted(health.history_days, 'day')} of history" if health.history_days else "no history yet"
    found = [plain(str(one)) for one in find_unhealthy(health)]
    return [judged + known, *(found or ["all healthy" if health.endpoints else "no attempts in this period"])]


def endpoint_lines(health: EndpointHealth, now_ms: int) -> list[str]:
    """The endpoints that were unhealthy in the last observation."""
    age = milliseconds(max(now_ms - health.observed_until_ms, 0))
    unhealthy = health.unhealthy
    more = len(unhealthy) - SHOWN_MAX
    return [
        f"{counted(health.observed, 'endpoint')} observed from {moment(health.observed_from_ms)} to "
        f"{moment(health.observed_until_ms)} UTC ({age} ago): {count(len(unhealthy))} unhealthy",
        *[_line(one) for one in unhealthy[:SHOWN_MAX]],
        *([f"{count(more)} more: --json shows all"] if more > 0 else []),
    ]


def _line(one: UnhealthyEndpoint) -> str:
    what = _failing(one) if one.state == "failing" else _slow(one)
    return f"{one.state:<7}  {plain(one.endpoint)}  {what}"


def _failing(one: UnhealthyEndpoint) -> str:
    usual = "" if one.expected_share is None else f", usually {share(one.expected_share)}"
    why = failure_text(plain(one.cause), one.status)
    return f"{share(one.failed / one.attempts)} of {counted(one.attempts, 'attempt')} failed{usual}; mostly: {why}"


def _slow(one: UnhealthyEndpoint) -> str:
    usual = "" if one.expected_p50_ms is None else f", usually {milliseconds(one.expected_p50_ms)}"
    return f"{milliseconds(one.p50_ms)} to answer (median){usual}"
