"""Trace contexts, and the spans of API operations, by OpenTelemetry's own exporter in memory."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cns_common.aws.call import ANONYMOUS, Call, Params, Result
from cns_common.errors import RequestError
from cns_common.traces.context import context_in, is_sampled, read_traceparent, read_xray, write_xray
from cns_common.traces.operations import TracedOperations
from cns_common.traces.recorder import SpanRecorder

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
XRAY = f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN};Sampled=1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SAMPLED, SAMPLED),
        (f" {SAMPLED} ", SAMPLED),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-03", SAMPLED),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-adds", SAMPLED),
        (f"00-{TRACE}-{SPAN}-01-extra", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (f"00-{TRACE.upper()}-{SPAN}-01", ""),
        (f"00-{TRACE}-{SPAN}", ""),
        ("", ""),
        ("x" * 10_000, ""),
    ],
)
def test_traceparent_by_the_rules_of_w3c(text: str, expected: str) -> None:
    assert read_traceparent(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (XRAY, SAMPLED),
        (XRAY.replace("Sampled=1", "Sampled=0"), f"00-{TRACE}-{SPAN}-00"),
        (f"Self=1-a-b; {XRAY} ;Lineage=x", SAMPLED),
        (f"Root=1-{TRACE[:8]}-{TRACE[8:]}", ""),
        ("Root=1-5759e988;Parent=x", ""),
        ("", ""),
        (";;==", ""),
    ],
)
def test_trace_header_of_aws(text: str, expected: str) -> None:
    assert read_xray(text) == expected


def test_a_context_survives_the_way_through_a_queue() -> None:
    assert write_xray(SAMPLED) == XRAY and read_xray(write_xray(SAMPLED)) == SAMPLED


def test_traceparent_is_preferred_and_an_invalid_one_is_none() -> None:
    other = XRAY.replace(SPAN, "1" * 16)
    assert context_in({b"traceparent": SAMPLED.encode(), b"x-amzn-trace-id": other.encode()}) == SAMPLED
    assert context_in({b"x-amzn-trace-id": XRAY.encode()}) == SAMPLED
    assert context_in({b"traceparent": b"\xff", b"x-amzn-trace-id": XRAY.encode()}) == ""
    assert context_in({}) == ""


class TracedTable:
    """A table with one operation, and what was exported."""

    def __init__(self, ratio: float = 0.0, *, names_in_queues: bool = False) -> None:
        self.exporter = InMemorySpanExporter()
        self.recorder = SpanRecorder(self.exporter, {"service.name": "test"}, ratio, lambda: 0.5)
        self.operations = TracedOperations(self.recorder, names_in_queues=names_in_queues)
        self.seen: list[Call] = []

    async def call(
        self, headers: dict[bytes, bytes], params: Params | None = None, error: Exception | None = None
    ) -> Any:
        async def operation(call: Call, params: Params) -> Result:
            self.seen.append(call)
            if error is not None:
                raise error
            return {}

        table = self.operations.wrap("sqs", {"SendMessage": operation, "ReceiveMessage": operation})
        assert table["ReceiveMessage"] is operation
        call = Call(caller=ANONYMOUS, region="r", request_id="1", base_url="", headers=headers)
        await table["SendMessage"](call, params or {"QueueUrl": "http://q"})

    def spans(self) -> list[Any]:
        self.recorder.close()
        return list(self.exporter.get_finished_spans())


async def test_a_sampled_caller_is_the_parent() -> None:
    traced = TracedTable()
    await traced.call({b"traceparent": SAMPLED.encode()})
    (span,) = traced.spans()
    assert (span.name, span.attributes["messaging.destination.name"]) == ("SendMessage", "http://q")
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
    assert traced.seen[0].trace_context == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert traced.seen[0].trace_header == ""


async def test_a_caller_that_is_not_sampled_is_passed_on_without_a_span() -> None:
    traced, context = TracedTable(1.0), f"00-{TRACE}-{SPAN}-00"
    await traced.call({b"traceparent": context.encode()})
    assert traced.seen[0].trace_context == context and not is_sampled(context)
    assert traced.spans() == []


@pytest.mark.parametrize(("ratio", "spans"), [(0.4, 0), (0.6, 1)])
async def test_a_caller_without_a_context_is_sampled_by_chance(ratio: float, spans: int) -> None:
    traced = TracedTable(ratio)
    await traced.call({})
    assert len(traced.spans()) == spans == bool(traced.seen[0].trace_context)


async def test_the_context_in_a_message_is_the_parent() -> None:
    traced = TracedTable()
    await traced.call({}, {"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": XRAY}}})
    (span,) = traced.spans()
    assert f"{span.parent.span_id:016x}" == SPAN


async def test_a_queue_is_told_the_trace_if_asked_to() -> None:
    traced = TracedTable(names_in_queues=True)
    await traced.call({b"traceparent": SAMPLED.encode()})
    assert traced.seen[0].trace_header == write_xray(traced.seen[0].trace_context)


async def test_an_error_is_named_in_the_span() -> None:
    traced = TracedTable(1.0)
    with pytest.raises(RequestError):
        await traced.call({}, error=RequestError("InvalidParameter", "no"))
    (span,) = traced.spans()
    assert span.attributes["error.type"] == "InvalidParameter" and not span.status.is_ok
