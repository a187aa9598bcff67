"""Spans of API operations, by wrapping the table of operations: without traces the table is not touched."""

from __future__ import annotations

from collections.abc import Mapping

from cns_common.aws.call import Call, Operation, Params, Result
from cns_common.errors import RequestError
from cns_common.traces.context import context_in, read_xray, write_xray
from cns_common.traces.contract import Spans

TRACED: Mapping[str, Mapping[str, str]] = {
    "sns": {"Publish": "TopicArn", "PublishBatch": "TopicArn"},
    "sqs": {"SendMessage": "QueueUrl", "SendMessageBatch": "QueueUrl"},
}
"""The operations that begin a message's way, and the parameter that names its destination."""


class TracedOperations:
    """`names_in_queues`: messages without AWSTraceHeader get one of their trace."""

    def __init__(self, spans: Spans, *, names_in_queues: bool) -> None:
        self._spans = spans
        self._names_in_queues = names_in_queues

    def wrap(self, service: str, operations: Mapping[str, Operation]) -> dict[str, Operation]:
        """The table with the traced operations in place of its own."""
        traced = TRACED.get(service, {})
        return {name: self._traced(service, name, run) if name in traced else run for name, run in operations.items()}

    def _traced(self, service: str, name: str, operation: Operation) -> Operation:
        parameter = TRACED[service][name]

        async def run(call: Call, params: Params) -> Result:
            parent = context_in(call.headers) or _context_in_message(params)
            if not self._spans.is_wanted(parent):
                call.trace_context = parent
                return await operation(call, params)
            attributes = {
                "rpc.system": "aws-api",
                "rpc.service": service.upper(),
                "rpc.method": name,
                "messaging.system": "cns" if service == "sns" else "cqs",
                "messaging.destination.name": str(params.get(parameter) or ""),
                "aws.request_id": call.request_id,
                "cns.account": call.caller.account,
            }
            span = self._spans.start(name, "server", parent, attributes)
            call.trace_context = span.context
            if self._names_in_queues and not call.trace_header:
                call.trace_header = write_xray(span.context)
            error = "cancelled"
            try:
                result = await operation(call, params)
                error = ""
            except Exception as raised:  # it is named in the span, and goes on
                error = raised.code if isinstance(raised, RequestError) else type(raised).__name__
                raise
            finally:
                span.end(error)
            return result

        return run


def _context_in_message(params: Params) -> str:
    """The context in AWSTraceHeader of SendMessage."""
    attributes = params.get("MessageSystemAttributes") or {}
    header = attributes.get("AWSTraceHeader") or {}
    return read_xray(header.get("StringValue") or "")
