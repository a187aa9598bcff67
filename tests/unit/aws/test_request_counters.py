"""Requests counted by account, service and operation."""

from __future__ import annotations

import pytest

from cns_common.aws import request_counters
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.aws.request_counters import RequestCounters
from cns_common.events.schema import RequestsCounted
from tests.recorded_events import RecordedEvents


def reported(counters: RequestCounters) -> list[RequestsCounted]:
    sink = RecordedEvents()
    counters.report(sink, 1, 2)
    return [event for event in sink.events if isinstance(event, RequestsCounted)]


def test_requests_errors_and_bytes_add_up_until_they_are_reported() -> None:
    counters = RequestCounters()
    for status, body in ((200, b"abc"), (400, b"d"), (503, b"ef")):
        answer = HttpAnswer(status, [], body)
        assert counters.add("a", "sns", "Publish", 10, answer) is answer
    counters.add("a", "sqs", "SendMessage", 1, HttpAnswer(200, [], b""))
    counters.add("cns", "sqs", "ReceiveMessage", 1, HttpAnswer(200, [], b""))  # a call made by CNS itself
    first, second = reported(counters)
    assert first == RequestsCounted(
        at_ms=2,
        since_ms=1,
        account="a",
        service="sns",
        operation="Publish",
        requests=3,
        errors=2,
        request_bytes=30,
        response_bytes=6,
    )
    assert (second.service, second.operation, second.requests) == ("sqs", "SendMessage", 1)
    assert reported(counters) == []


def test_too_many_accounts_share_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_counters, "KEYS_MAX", 2)
    counters = RequestCounters()
    for account in ("a", "b", "c", "d", "a"):
        counters.add(account, "sns", "Publish", 0, HttpAnswer(200, [], b""))
    assert {event.account: event.requests for event in reported(counters)} == {"a": 2, "b": 1, "": 2}
