"""Counts answered API requests by account, service and operation, for `requests.counted`."""

from __future__ import annotations

from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.aws.protocol.names import ServiceName
from cns_common.clock import Clock
from cns_common.events.schema import EventSink, RequestsCounted

KEYS_MAX = 50_000
"""Combinations of account, service and operation between two reports. The requests of more accounts count as those of
none."""
_FIRST_ERROR_STATUS = 400


class _Count:
    __slots__ = ("errors", "request_bytes", "requests", "response_bytes")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.request_bytes = 0
        self.response_bytes = 0


class RequestCounters:
    def __init__(self) -> None:
        self._counts: dict[tuple[str, ServiceName, str], _Count] = {}

    def add(
        self, account: str, service: ServiceName, operation: str, request_bytes: int, answer: HttpAnswer
    ) -> HttpAnswer:
        """Count a request with its answer, which is returned. Requests of CNS itself are not counted."""
        if account == INTERNAL_ACCOUNT:
            return answer
        count = self._counts.get((account, service, operation))
        if count is None:
            count = self._new((account, service, operation))
        count.requests += 1
        count.errors += answer.status >= _FIRST_ERROR_STATUS
        count.request_bytes += request_bytes
        count.response_bytes += len(answer.body)
        return answer

    def report(self, events: EventSink, since_ms: int, now_ms: int) -> None:
        """Emit one event for each combination, and begin anew."""
        counts, self._counts = self._counts, {}
        for (account, service, operation), count in counts.items():
            events.emit(
                RequestsCounted(
                    at_ms=now_ms,
                    since_ms=since_ms,
                    account=account,
                    service=service,
                    operation=operation,
                    requests=count.requests,
                    errors=count.errors,
                    request_bytes=count.request_bytes,
                    response_bytes=count.response_bytes,
                )
            )

    def _new(self, key: tuple[str, ServiceName, str]) -> _Count:
        if len(self._counts) >= KEYS_MAX:
            key = ("", key[1], key[2])
        return self._counts.setdefault(key, _Count())


class RequestReporter:
    """Its owner calls `report` once a minute, and at its end."""

    def __init__(self, counters: RequestCounters, events: EventSink, clock: Clock) -> None:
        self._counters = counters
        self._events = events
        self._clock = clock
        self._since_ms = clock.now_ms()

    def report(self) -> None:
        since_ms, self._since_ms = self._since_ms, self._clock.now_ms()
        self._counters.report(self._events, since_ms, self._since_ms)
