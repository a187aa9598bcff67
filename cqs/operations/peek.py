"""Every message of a queue as a ReceiveMessage would show it, but nothing is received."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cns_common.aws.call import Result
from cqs.engines.contract import Message
from cqs.messages.peek import MessageStatus, QueuePeeker
from cqs.operations.received import message_result, read_selection
from cqs.queues.view import QueueView

HANDLE = "SQS/BACKDOOR/ACCESS"
"""What stands where a receipt handle would. It is none."""
_EVERYTHING = read_selection({"AttributeNames": ["All"], "MessageAttributeNames": ["All"]})


class PeekOptions(NamedTuple):
    """What besides the visible messages is shown. Each adds a system attribute that says which it is."""

    invisible: bool = False
    delayed: bool = False


async def peek(peeking: QueuePeeker, view: QueueView, shown: PeekOptions) -> Result:
    """The result of a ReceiveMessage."""
    seen = await peeking.look(view)
    return {"Messages": [_message(view, one, shown) for one in seen if _is_shown(one, shown)]}


def _is_shown(seen: MessageStatus, shown: PeekOptions) -> bool:
    if seen.delayed:
        return shown.delayed
    return shown.invisible or not (seen.hidden or seen.held)


def _message(view: QueueView, seen: MessageStatus, shown: PeekOptions) -> Result:
    peeked = seen.message
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
    result["Attributes"] |= dict(_states(seen, shown))
    return result


def _states(seen: MessageStatus, shown: PeekOptions) -> Iterator[tuple[str, str]]:
    """For a FIFO message behind one in flight, LocalStack says that it is visible, too."""
    if shown.invisible:
        yield "IsVisible", "false" if seen.hidden else "true"
    if shown.delayed:
        yield "IsDelayed", "true" if seen.delayed else "false"
