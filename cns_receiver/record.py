"""The record of one delivery, and how the message in it is identified."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from cns.delivery.envelope import MessageType
from cns_common.errors import UNREADABLE
from cns_receiver.http_server import IncomingRequest

ID_BYTES_MAX = 512

SUBSCRIPTION_CONFIRMATION = MessageType.SUBSCRIPTION_CONFIRMATION.encode()

_CONFIRMING = frozenset({SUBSCRIPTION_CONFIRMATION, MessageType.UNSUBSCRIBE_CONFIRMATION.encode()})


class SignatureStatus(StrEnum):
    GOOD = "good"
    BAD = "bad"
    UNSIGNED = "unsigned"
    WAITING = "waiting"
    UNCHECKED = "unchecked"  # not requested, or the certificate could not be fetched


class ReceiverIdentity(NamedTuple):
    """The message and its subscription; empty if a delivery does not name them."""

    type: bytes
    message_id: bytes
    subscription: bytes


class Record(msgspec.Struct, gc=False):
    arrived_ns: int
    identity: ReceiverIdentity
    attempt: int
    target: bytes
    headers: dict[bytes, bytes]
    body: bytes  # the beginning
    body_bytes: int  # of the whole body
    status: int = 0  # 0: never answered
    signature: SignatureStatus = SignatureStatus.UNCHECKED

    @property
    def confirming(self) -> bool:
        return self.identity.type in _CONFIRMING

    def as_json(self) -> dict[str, object]:
        identity = self.identity
        return {
            "arrived_ms": self.arrived_ns // 1_000_000,
            "type": _text(identity.type),
            "message_id": _text(identity.message_id),
            "subscription_arn": _text(identity.subscription),
            "attempt": self.attempt,
            "status": self.status,
            "signature": self.signature.value,
            "target": _text(self.target),
            "headers": {_text(name): _text(value) for name, value in self.headers.items()},
            "body": self.body.decode("utf-8", "replace"),
            "body_bytes": self.body_bytes,
        }


class _Members(msgspec.Struct, rename="pascal"):
    type: str = ""
    message_id: str = ""


def identify(request: IncomingRequest) -> ReceiverIdentity:
    """Read the identity from SNS's headers or, for a delivery posted by hand, from the body."""
    headers = request.headers
    message_id = headers.get(b"x-amz-sns-message-id")
    if message_id is None:
        return _identify_body(request.body)
    return ReceiverIdentity(
        headers.get(b"x-amz-sns-message-type", b""),
        _valid_id(message_id),
        _valid_id(headers.get(b"x-amz-sns-subscription-arn", b"")),
    )


def _identify_body(body: bytes) -> ReceiverIdentity:
    try:
        members = msgspec.json.decode(body, type=_Members)
        return ReceiverIdentity(_valid_id(members.type.encode()), _valid_id(members.message_id.encode()), b"")
    except UNREADABLE:
        return ReceiverIdentity(b"", b"", b"")


def _valid_id(value: bytes) -> bytes:
    """Return the id, or b"" if it is not one or would break a line of the journal."""
    return value if len(value) <= ID_BYTES_MAX and len(value.split()) == 1 else b""


def _text(value: bytes) -> str:
    return value.decode("latin-1")
