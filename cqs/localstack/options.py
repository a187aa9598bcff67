"""The LocalStack variants of the SQS API, chosen at the start for all calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cns_common.aws.call import Call, Operation, Params, Result
from cqs.authorization import ReadAddress
from cqs.localstack.url_styles import UrlStyle, WriteUrl, url_writer
from cqs.operations.messages import ReceiveBounds
from cqs.queues.urls import addressed_queue, queue_in_named_region, queue_url

OVERRIDDEN_BOUNDS = ReceiveBounds(messages_max=1_000, wait_s_max=900)
"""LocalStack has no limits here."""
_MEMBERS: Mapping[bytes, str] = {
    b"x-localstack-sqs-override-message-count": "MaxNumberOfMessages",
    b"x-localstack-sqs-override-wait-time-seconds": "WaitTimeSeconds",
}
_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStackOptions:
    """The default values are SQS's behaviour."""

    write_url: WriteUrl = queue_url
    address: ReadAddress = addressed_queue
    receive_overrides: bool = False


def localstack_options(style: UrlStyle, domain: str = "", *, localstack: bool) -> LocalStackOptions:
    """`style` and `domain` are those of `url_writer`."""
    return LocalStackOptions(
        write_url=url_writer(style, domain),
        address=queue_in_named_region if localstack else addressed_queue,
        receive_overrides=localstack,
    )


def with_overrides(receive: Operation, receive_more: Operation) -> Operation:
    """Call `receive`, or `receive_more` (built with `OVERRIDDEN_BOUNDS`) if the call has one of LocalStack's override
    headers."""

    async def receive_message(call: Call, params: Params) -> Result:
        overrides = read_overrides(call.headers)
        if not overrides:
            return await receive(call, params)
        return await receive_more(call, {**params, **overrides})

    return receive_message


def read_overrides(headers: Mapping[bytes, bytes]) -> dict[str, int]:
    """The ReceiveMessage members in the headers. Values that are not numbers, or 0, are ignored."""
    given = {member: headers.get(name, b"").strip() for name, member in _MEMBERS.items()}
    numbers = {member: int(text) for member, text in given.items() if text.isdigit() and len(text) <= _DIGITS_MAX}
    return {member: number for member, number in numbers.items() if number}
