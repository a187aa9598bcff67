"""LocalStack's headers that lift the limits of a ReceiveMessage: more messages at once, and a longer wait."""

from __future__ import annotations

from collections.abc import Mapping

from cns_common.aws.call import Call, Operation, Params, Result
from cqs.operations.messages import ReceiveBounds

OVERRIDDEN_BOUNDS = ReceiveBounds(messages_max=1_000, wait_s_max=900)
"""LocalStack has no bounds here."""
_MEMBERS: Mapping[bytes, str] = {
    b"x-localstack-sqs-override-message-count": "MaxNumberOfMessages",
    b"x-localstack-sqs-override-wait-time-seconds": "WaitTimeSeconds",
}
_DIGITS_MAX = 9


def with_overrides(receive: Operation, receive_more: Operation) -> Operation:
    """`receive`, or `receive_more` (made with `OVERRIDDEN_BOUNDS`) for a call that has one of the headers."""

    async def receive_message(call: Call, params: Params) -> Result:
        overrides = read_overrides(call.headers)
        if not overrides:
            return await receive(call, params)
        return await receive_more(call, {**params, **overrides})

    return receive_message


def read_overrides(headers: Mapping[bytes, bytes]) -> dict[str, int]:
    """The members that the headers stand for. What is no number, or 0, is as good as absent."""
    given = {member: headers.get(name, b"").strip() for name, member in _MEMBERS.items()}
    numbers = {member: int(text) for member, text in given.items() if text.isdigit() and len(text) <= _DIGITS_MAX}
    return {member: number for member, number in numbers.items() if number}
