"""Letters: bodies of a dead-letter queue that are notifications of a subscription. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from cns.delivery.envelope import verify_body
from cns.limits import FIFO_SUFFIX
from cns.notification import Notification
from cns_common.errors import UNREADABLE
from cqs.queues.model import decode_body

FindCertificate = Callable[[str], bytes | None]
"""Finds a certificate of this service's signing keys, by the name in `SigningCertURL`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9998, 12, 31, tzinfo=UTC)
_BEGIN = re.compile(r'\s{0,8}\{\s{0,8}"Type"\s{0,8}:\s{0,8}"Notification"')
"""How the body of a notification begins."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LetterEnvelope(msgspec.Struct, frozen=True, rename="pascal"):
    """A notification's body, as `cns.delivery.envelope` renders it."""

    type: Literal["Notification"]
    message_id: str
    topic_arn: str
    message: str
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    subject: str | None = None
    signature: str = ""
    signature_version: str = "1"
    signing_cert_url: str = msgspec.field(name="SigningCertURL", default="")
    unsubscribe_url: str = msgspec.field(name="UnsubscribeURL", default="")
    message_attributes: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not _EPOCH <= self.timestamp <= _LAST:
            raise ValueError("Timestamp is no time that pages can show")

    def is_of(self, subscription: str) -> bool:
        """Whether it was to be delivered to this subscription: a dead-letter queue may be that of several."""
        topic_arn = subscription.rpartition(":")[0]
        return self.topic_arn == topic_arn and self.unsubscribe_url.endswith(f"SubscriptionArn={subscription}")

    @property
    def is_signed_whole(self) -> bool:
        """Whether the signature covers all that would be delivered: FIFO letters have none, and it leaves out the
        message attributes."""
        return not self.topic_arn.endswith(FIFO_SUFFIX) and not self.message_attributes

    @property
    def timestamp_ms(self) -> int:
        return (self.timestamp - _EPOCH) // timedelta(milliseconds=1)

    def notification(self) -> Notification:
        """The notification as it was published. It is trustworthy only if `is_signed_whole`."""
        return Notification(
            id=self.message_id,
            topic_arn=self.topic_arn,
            timestamp_ms=self.timestamp_ms,
            texts={"default": self.message},
            subject=self.subject,
            signature_version=self.signature_version,
        )


def letters_of(bodies: Sequence[bytes], subscription: str, certificate: FindCertificate) -> list[LetterEnvelope]:
    """The genuine letters of a subscription among the bodies of messages, as the engines keep them.

    It decodes and verifies each: run it in a thread.
    """
    found = []
    for stored in bodies:
        try:
            text = decode_body(stored).text
            if not _BEGIN.match(text):
                continue
            body = _decode(text.encode())
            envelope = msgspec.convert(body, LetterEnvelope)
            if envelope.is_of(subscription) and _is_genuine(body, envelope, certificate):
                found.append(envelope)
        except UNREADABLE:  # another text
            continue
    return found


def _is_genuine(body: dict[str, Any], envelope: LetterEnvelope, certificate: FindCertificate) -> bool:
    """Whether this service signed the body. Notifications of FIFO topics have no signature.

    Others may send to the dead-letter queue, and what is delivered again is signed again: so a text that was never
    published must not pass."""
    if envelope.topic_arn.endswith(FIFO_SUFFIX):
        return True
    found = certificate(envelope.signing_cert_url.rpartition("/")[2])
    return found is not None and verify_body(body, found)
