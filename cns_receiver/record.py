"""One delivery as the fault receiver keeps it, and what says which message it is."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from cns.delivery.envelope import MessageType
from cns_receiver.http_server import Request

ID_BYTES_MAX = 512

SUBSCRIPTION_CONFIRMATION = MessageType.SUBSCRIPTION_CONFIRMATION.encode()

_CONFIRMING = frozenset({SUBSCRIPTION_CONFIRMATION, MessageType.UNSUBSCRIBE_CONFIRMATION.encode()})


class Verdict(StrEnum):
    GOOD = "good"
    BAD = "bad"
    UNSIGNED = "unsigned"
    WAITING = "waiting"
    UNCHECKED = "unchecked"  # nobody asked, or the certificate could not be had


class Identity(NamedTuple):
    """Empty is what a delivery does not say."""

    type: bytes
    message_id: bytes
    subscription: bytes


class Record(msgspec.Struct, gc=False):
    arrived_ns: int
    identity: Identity
    attempt: int
    target: bytes
    headers: dict[bytes, bytes]
    body: bytes  # its beginning
    body_bytes: int  # of all of it
    status: int = 0  # 0: never answered
    verdict: Verdict = Verdict.UNCHECKED

    @property
    def confirming(self) -> bool:
        return self.identity.type in _CONFIRMING

    def shown(self) -> dict[str, object]:
        identity = self.identity
        return {
            "arrived_ms": self.arrived_ns // 1_000_000,
            "type": _text(identity.type),
            "message_id": _text(identity.message_id),
            "subscription_arn": _text(identity.subscription),
            "attempt": self.attempt,
            "status": self.status,
            "signature": self.verdict.value,
            "target": _text(self.target),
            "headers": {_text(name): _text(value) for name, value in self.headers.items()},
            "body": self.body.decode("utf-8", "replace"),
            "body_bytes": self.body_bytes,
        }


class _Members(msgspec.Struct, rename="pascal"):
    type: str = ""
    message_id: str = ""


def identify(request: Request) -> Identity:
    """From the headers SNS sends; without them, from the body: a person may post one by hand."""
    headers = request.headers
    message_id = headers.get(b"x-amz-sns-message-id")
    if message_id is None:
        return _identify_body(request.body)
    return Identity(
        headers.get(b"x-amz-sns-message-type", b""),
        _one_word(message_id),
        _one_word(headers.get(b"x-amz-sns-subscription-arn", b"")),
    )


def _identify_body(body: bytes) -> Identity:
    try:
        members = msgspec.json.decode(body, type=_Members)
        return Identity(_one_word(members.type.encode()), _one_word(members.message_id.encode()), b"")
    except (ValueError, RecursionError):
        return Identity(b"", b"", b"")


def _one_word(value: bytes) -> bytes:
    """Ids that would break a journal's line, or are no ids, are none."""
    return value if len(value) <= ID_BYTES_MAX and len(value.split()) == 1 else b""


def _text(value: bytes) -> str:
    return value.decode("latin-1")
