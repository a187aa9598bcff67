"""Requests to a service that speaks the SQS API (AWS JSON 1.0): their signature, and what an error response says.

Used by the http driver of the queue port and for deliveries to queues of other services. `sign` shares the canonical
request with the check of signatures in this service's API; botocore's SigV4Auth makes the same signature in 72 to 82
microseconds of CPU instead of 9, and reads the clock itself.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from cns.endpoints.http_url import target_of
from cns_common.aws.auth.request_signing import SigningCredential, sign
from cns_common.errors import UNREADABLE

Members = TypeVar("Members")


class SqsService(NamedTuple):
    """Base URL of a service, and the key by which requests to it are signed."""

    url: str
    key_id: str
    secret: str


class SqsRequest(NamedTuple):
    url: str
    headers: dict[str, str]
    body: bytes


class SqsError(NamedTuple):
    """`code` is '' when the response is not an SQS service's."""

    code: str
    message: str


class _ErrorMembers(msgspec.Struct):
    type: str = msgspec.field(default="", name="__type")
    message: str | None = None
    capital_message: str | None = msgspec.field(default=None, name="Message")  # older services spell it so


def signed_request(service: SqsService, region: str, action: str, members: object, now_ms: int) -> SqsRequest:
    """The request for one action. It has no signature when the service's URL cannot be posted to."""
    body = msgspec.json.encode(members)
    url = f"{service.url.rstrip('/')}/"
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{action}",
    }
    target = target_of(url)
    if target is None:
        return SqsRequest(url, headers, body)
    signature = sign(
        method="POST",
        path=target.path,
        headers={"Host": target.host_field, **headers},
        body=body,
        credential=SigningCredential(service.key_id, service.secret, region, "sqs"),
        now_ms=now_ms,
    )
    return SqsRequest(url, headers | signature, body)


def error_of(body: bytes) -> SqsError:
    members = decode_or_default(body, _ErrorMembers)
    return SqsError(members.type.rpartition("#")[2], members.message or members.capital_message or "")


def decode_or_default(body: bytes, members: type[Members]) -> Members:
    """The members of a response; the defaults when it is not in the service's form."""
    try:
        return msgspec.json.decode(body, type=members)
    except UNREADABLE:  # bad JSON or UTF-8, and brackets without end
        return members()
