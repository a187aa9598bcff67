"""A message in the response of a ReceiveMessage: its receipt handle, body, and the attributes that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cns_common.aws.call import Result
from cqs.engines.contract import Message
from cqs.internal_queues import job_body
from cqs.messages.message_attributes import Attribute, digest
from cqs.messages.sequence_number import sequence_text
from cqs.queues.model import Body, decode_body
from cqs.queues.view import QueueView

_SYSTEM: Mapping[str, Callable[[QueueView, Message, Body], str]] = {
    "SenderId": lambda view, message, body: body.sender,
    "SentTimestamp": lambda view, message, body: str(body.sent_at_ms),
    "ApproximateReceiveCount": lambda view, message, body: str(message.deliveries),
    "ApproximateFirstReceiveTimestamp": lambda view, message, body: str(message.first_received_ms),
    "AWSTraceHeader": lambda view, message, body: body.trace,
    "DeadLetterQueueSourceArn": lambda view, message, body: body.source_arn,
    "MessageGroupId": lambda view, message, body: message.group,
    "MessageDeduplicationId": lambda view, message, body: body.dedup,
    "SequenceNumber": lambda view, message, body: sequence_text(message.sequence) if view.fifo else "",
}
"""The system attributes; '' for one that the message does not have."""


class AttributeSelection(NamedTuple):
    """The attributes that a receive asks for."""

    system: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def pick(self, attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        names, prefixes = self.names, self.prefixes
        if prefixes == ("",):
            return attributes
        return tuple([one for one in attributes if one.name in names or one.name.startswith(prefixes)])


_NOTHING = AttributeSelection()
_ALL_NAMES = frozenset({"All", "*"})
"""Values of MessageAttributeNames that select all message attributes; so does `.*`, as a prefix."""


def read_selection(params: Mapping[str, Any]) -> AttributeSelection:
    """The selection in a ReceiveMessage's parameters. Unknown names are ignored."""
    system = [*params.get("AttributeNames", ()), *params.get("MessageSystemAttributeNames", ())]
    names = params.get("MessageAttributeNames")
    if not system and not names:
        return _NOTHING
    wanted = frozenset(names or ())
    return AttributeSelection(
        tuple(_SYSTEM) if "All" in system else tuple([name for name in _SYSTEM if name in system]),
        wanted,
        ("",) if wanted & _ALL_NAMES else tuple([name.removesuffix(".*") for name in wanted if name.endswith(".*")]),
    )


def message_result(view: QueueView, message: Message, received_at_ms: int, selection: AttributeSelection) -> Result:
    body = job_body(message) if view.internal else decode_body(message.body)
    result: Result = {
        "MessageId": message.id,
        "ReceiptHandle": (
            view.receipts.make_named(received_at_ms, message.handle, message.id, message.group)
            if view.audit
            else view.receipts.make(received_at_ms, message.handle)
        ),
        "MD5OfBody": body.md5,
        "Body": body.text,
    }
    if selection is _NOTHING:
        return result
    if selection.system:
        shown = {name: _SYSTEM[name](view, message, body) for name in selection.system}
        result["Attributes"] = {name: text for name, text in shown.items() if text}
    if body.attributes:
        picked = selection.pick(body.attributes)
        if picked:
            every = len(picked) == len(body.attributes)
            result["MD5OfMessageAttributes"] = body.attributes_md5 if every else digest(picked)
            result["MessageAttributes"] = {attribute.name: attribute.as_member() for attribute in picked}
    return result
