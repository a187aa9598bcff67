"""All messages of a queue in the form of a ReceiveMessage response, without receiving them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cns_common.aws.call import Result
from cqs.engines.contract import Message
from cqs.messages.peek import MessageStatus, QueuePeeker
from cqs.operations.message_result import message_result, read_selection
from cqs.queues.view import QueueView

HANDLE = "SQS/BACKDOOR/ACCESS"
"""In the place of a receipt handle; it is not one."""
_EVERYTHING = read_selection({"AttributeNames": ["All"], "MessageAttributeNames": ["All"]})


class PeekOptions(NamedTuple):
    """The messages to show besides the visible ones. Each option adds a system attribute with the message's
    state."""

    invisible: bool = False
    delayed: bool = False


async def peek(peeker: QueuePeeker, view: QueueView, options: PeekOptions) -> Result:
    """The response of a ReceiveMessage."""
    statuses = await peeker.peek(view)
    return {"Messages": [_message(view, one, options) for one in statuses if _is_selected(one, options)]}


def _is_selected(status: MessageStatus, options: PeekOptions) -> bool:
    if status.delayed:
        return options.delayed
    return options.invisible or not (status.in_flight or status.blocked)


def _message(view: QueueView, status: MessageStatus, options: PeekOptions) -> Result:
    peeked = status.message
    message = Message(
        peeked.id,
        b"",
        peeked.body,
        peeked.sequence,
        peeked.deliveries,
        peeked.first_received_ms,
        peeked.born_at_ms,
        peeked.group,
    )
    result = message_result(view, message, 0, _EVERYTHING)
    result["ReceiptHandle"] = HANDLE
    result["Attributes"] |= dict(_states(status, options))
    return result


def _states(status: MessageStatus, options: PeekOptions) -> Iterator[tuple[str, str]]:
    """LocalStack shows a FIFO message behind one in flight as visible, too."""
    if options.invisible:
        yield "IsVisible", "false" if status.in_flight else "true"
    if options.delayed:
        yield "IsDelayed", "true" if status.delayed else "false"
