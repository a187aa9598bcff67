"""What was to leave this service by a way it has none of its own for: SMS, mobile push, Lambda, Firehose, mail.

It is kept for a while, to be looked at, unless a gateway is set up that takes it.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

OUTBOX_MS = 7 * 86_400_000
"""How long an item is kept."""
_DIGEST_BYTES = 8


class OutboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery. `destination` is the endpoint: a phone number, an ARN, a mail address."""

    id: str  # rises with time: items are listed newest first
    at_ms: int
    account: str
    region: str
    protocol: str
    destination: str
    message_id: str
    topic_arn: str = ""  # '' for what was published to the destination itself
    subscription_arn: str = ""
    sender: str = ""  # the name that a mail or a text message comes from
    subject: str | None = None
    message: str = ""  # the text for this protocol
    body: str = ""  # what the endpoint would have got: the Lambda event, the Firehose record, the mail
    structured: bool = False
    attributes: dict[str, tuple[str, str]] = {}


def item_id(at_ms: int, message_id: str, destination: str) -> str:
    """The same for every attempt at one delivery, so that what was delivered twice is kept once."""
    digest = blake2b(f"{message_id} {destination}".encode(), digest_size=_DIGEST_BYTES)
    return f"{at_ms:013d}-{digest.hexdigest()}"
