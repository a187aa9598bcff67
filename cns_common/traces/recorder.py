"""Records spans by OpenTelemetry's SDK and exports them by OTLP over HTTP.

Whether a trace is recorded is decided once, where it begins: by the caller's context, else at random. So a call that is
not recorded costs one random number, and the SDK sees sampled spans only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from cns_common.traces.context import is_sampled, traceparent
from cns_common.traces.contract import Attributes, Kind, Span, Spans

CLOSE_MS = 3_000
SPANS_WAITING_MAX = 8_192
_KINDS: Mapping[Kind, SpanKind] = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
}


class RecordedSpan(Span):
    __slots__ = ("_span", "context")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        found = span.get_span_context()
        self.context = traceparent(f"{found.trace_id:032x}", f"{found.span_id:016x}", sampled=True)

    def end(self, error: str = "", attributes: Attributes | None = None) -> None:
        if attributes:
            self._span.set_attributes(dict(attributes))
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class SpanRecorder(Spans):
    """`random` returns numbers from 0 to 1. May be used from any thread."""

    def __init__(
        self, exporter: SpanExporter, resource: Mapping[str, str], sample_ratio: float, random: Callable[[], float]
    ) -> None:
        self._ratio = sample_ratio
        self._random = random
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource.create(dict(resource)))
        self._provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=SPANS_WAITING_MAX))
        self._tracer = self._provider.get_tracer("cns")

    def is_wanted(self, parent: str) -> bool:
        return is_sampled(parent) if parent else self._random() < self._ratio

    def start(self, name: str, kind: Kind, parent: str, attributes: Attributes) -> RecordedSpan:
        context = trace.set_span_in_context(NonRecordingSpan(_context(parent))) if parent else None
        return RecordedSpan(self._tracer.start_span(name, context, _KINDS[kind], dict(attributes)))

    def close(self) -> None:
        self._provider.force_flush(CLOSE_MS)
        self._provider.shutdown()


def _context(parent: str) -> SpanContext:
    _, trace_id, span_id, _ = parent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
