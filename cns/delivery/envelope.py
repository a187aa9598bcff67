"""The JSON bodies and HTTP headers that endpoints receive, and the text of a body that is signed.

A body is built in three steps: its fields in order, the text to sign, the bytes. The part that all subscriptions of a
notification share is rendered once (`Envelope`); only the UnsubscribeURL is inserted for each. The layout is AWS's to
the byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cns.delivery.delivery_policy import DEFAULT_CONTENT_TYPE
from cns.notification import Attributes, Notification

if TYPE_CHECKING:  # cryptography.x509 takes long to import
    from cns.delivery.signing import MessageSignature, Signer

USER_AGENT = "Amazon Simple Notification Service Agent"

Fields = dict[str, str]

_ENCODE = msgspec.json.Encoder().encode
_REPLAYED = b',\n  "Replayed" : "true"'


class MessageType(StrEnum):
    NOTIFICATION = "Notification"
    SUBSCRIPTION_CONFIRMATION = "SubscriptionConfirmation"
    UNSUBSCRIBE_CONFIRMATION = "UnsubscribeConfirmation"


_CONFIRMATION_SIGNED = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        MessageType.NOTIFICATION: ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
        MessageType.SUBSCRIPTION_CONFIRMATION: _CONFIRMATION_SIGNED,
        MessageType.UNSUBSCRIBE_CONFIRMATION: _CONFIRMATION_SIGNED,
    }
)


class ConfirmationNotice(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a message that asks an endpoint to confirm a subscription, or tells it of an unsubscription."""

    type: MessageType
    id: str
    token: str
    topic_arn: str
    subscription_arn: str
    timestamp_ms: int
    signature_version: str = "1"


class Envelope(NamedTuple):
    """A notification's body before and after the UnsubscribeURL."""

    head: bytes
    tail: bytes

    def body(self, unsubscribe_url: str) -> bytes:
        return b"".join((self.head, _ENCODE(unsubscribe_url), self.tail))


class EnvelopeDraft:
    """The envelope of a notification for one protocol, before its signature. Notifications of FIFO topics have none."""

    __slots__ = ("_fields", "_notification")

    def __init__(self, notification: Notification, protocol: str) -> None:
        self._notification = notification
        self._fields = notification_fields(notification, notification.text_for(protocol))

    def sign(self, signer: Signer, base_url: str) -> MessageSignature:
        """Callable from any thread."""
        return signer.sign_message(text_to_sign(self._fields), self._notification.signature_version, base_url)

    def finish(self, signature: MessageSignature | None) -> Envelope:
        notification = self._notification
        return render_notification(self._fields, notification.attributes, signature, replayed=notification.replayed)


def signed_envelope(notification: Notification, protocol: str, signer: Signer | None, base_url: str) -> Envelope:
    """The envelope of a notification for one protocol; without a signer, and of a FIFO topic, it is not signed."""
    draft = EnvelopeDraft(notification, protocol)
    return draft.finish(None if notification.fifo or signer is None else draft.sign(signer, base_url))


def signed_confirmation(confirmation: ConfirmationNotice, signer: Signer, base_url: str) -> bytes:
    fields = confirmation_fields(confirmation, base_url)
    signature = signer.sign_message(text_to_sign(fields), confirmation.signature_version, base_url)
    return render_confirmation(fields, signature)


def notification_fields(notification: Notification, text: str) -> Fields:
    fields = {"Type": MessageType.NOTIFICATION.value, "MessageId": notification.id}
    if notification.sequence_number and not notification.structured:  # AWS leaves it out with MessageStructure=json
        fields["SequenceNumber"] = notification.sequence_number
    fields["TopicArn"] = notification.topic_arn
    if notification.subject is not None:
        fields["Subject"] = notification.subject
    fields["Message"] = text
    fields["Timestamp"] = timestamp_text(notification.timestamp_ms)
    return fields


def confirmation_fields(confirmation: ConfirmationNotice, base_url: str) -> Fields:
    return {
        "Type": confirmation.type.value,
        "MessageId": confirmation.id,
        "Token": confirmation.token,
        "TopicArn": confirmation.topic_arn,
        "Message": _confirmation_message(confirmation),
        "SubscribeURL": subscribe_url(base_url, confirmation.topic_arn, confirmation.token),
        "Timestamp": timestamp_text(confirmation.timestamp_ms),
    }


def text_to_sign(fields: Mapping[str, str]) -> bytes:
    """Name and value on a line each, in AWS's order. Absent fields (Subject) are left out."""
    return "".join(f"{name}\n{fields[name]}\n" for name in _SIGNED[fields["Type"]] if name in fields).encode()


def verify_body(fields: Mapping[str, str], certificate_pem: bytes) -> bool:
    """Whether the signature in the members of a parsed body is valid, for receivers. Other members are ignored."""
    if fields.get("Type") not in _SIGNED or "Signature" not in fields or "SignatureVersion" not in fields:
        return False
    from cns.delivery.signing import verify

    return verify(text_to_sign(fields), fields["Signature"], fields["SignatureVersion"], certificate_pem)


def render_notification(
    fields: Fields, attributes: Attributes, signature: MessageSignature | None, *, replayed: bool = False
) -> Envelope:
    head = b"".join((b"{\n", _lines(fields), _signature_lines(signature), b'  "UnsubscribeURL" : '))
    return Envelope(head, b"".join((_attribute_lines(attributes), _REPLAYED if replayed else b"", b"\n}")))


def render_confirmation(fields: Fields, signature: MessageSignature) -> bytes:
    return b"".join((b"{\n", _lines(fields), _signature_lines(signature).removesuffix(b",\n"), b"\n}"))


def http_headers(
    message_type: MessageType,
    message_id: str,
    topic_arn: str,
    subscription_arn: str,
    content_type: str = DEFAULT_CONTENT_TYPE,
    *,
    raw: bool = False,
) -> dict[str, str]:
    """The headers of a POST without Host, Content-Length and Connection, which the client adds."""
    confirming = message_type is MessageType.SUBSCRIPTION_CONFIRMATION
    headers = {
        "x-amz-sns-message-type": message_type.value,
        "x-amz-sns-message-id": message_id,
        "x-amz-sns-topic-arn": topic_arn,
    }
    if not confirming:
        headers["x-amz-sns-subscription-arn"] = subscription_arn
    if raw and message_type is MessageType.NOTIFICATION:
        headers["x-amz-sns-rawdelivery"] = "true"
    headers["Content-Type"] = DEFAULT_CONTENT_TYPE if confirming else content_type
    headers["User-Agent"] = USER_AGENT
    headers["Accept-Encoding"] = "gzip,deflate"
    return headers


def subscribe_url(base_url: str, topic_arn: str, token: str) -> str:
    """The ARN is not escaped, as by AWS: clients split these URLs."""
    return f"{base_url}/?Action=ConfirmSubscription&TopicArn={topic_arn}&Token={token}"


def unsubscribe_url(base_url: str, subscription_arn: str) -> str:
    return f"{base_url}/?Action=Unsubscribe&SubscriptionArn={subscription_arn}"


def timestamp_text(timestamp_ms: int) -> str:
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{_second_text(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    """Cached: many notifications share a second."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


def _lines(fields: Mapping[str, str]) -> bytes:
    return b"".join(b'  "%b" : %b,\n' % (name.encode("ascii"), _ENCODE(value)) for name, value in fields.items())


def _signature_lines(signature: MessageSignature | None) -> bytes:
    if signature is None:
        return b""
    return _lines(
        {
            "SignatureVersion": signature.version,
            "Signature": signature.signature,
            "SigningCertURL": signature.certificate_url,
        }
    )


def _attribute_lines(attributes: Attributes) -> bytes:
    if not attributes:
        return b""
    lines = (
        b'    %b : {"Type":%b,"Value":%b}' % (_ENCODE(name), _ENCODE(data_type), _ENCODE(text))
        for name, (data_type, text) in attributes.items()
    )
    return b',\n  "MessageAttributes" : {\n%b\n  }' % b",\n".join(lines)


def _confirmation_message(confirmation: ConfirmationNotice) -> str:
    if confirmation.type is MessageType.SUBSCRIPTION_CONFIRMATION:
        return (
            f"You have chosen to subscribe to the topic {confirmation.topic_arn}.\n"
            "To confirm the subscription, visit the SubscribeURL included in this message."
        )
    return (
        f"You have chosen to deactivate subscription {confirmation.subscription_arn}.\n"
        "To cancel this operation and restore the subscription, visit the SubscribeURL included in this message."
    )
