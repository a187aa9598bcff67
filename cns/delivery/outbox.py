"""The outbox: deliveries for which this service has no channel (SMS, mobile push, Lambda, Firehose, mail without
relay).

Items are kept for inspection, unless a gateway is configured that takes them.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from cns_common.store_keys import Key

OUTBOX_MS = 7 * 86_400_000
"""The life of an item."""
_DIGEST_BYTES = 8


class OutboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery. `destination` is the endpoint: a phone number, an ARN, a mail address."""

    id: Key  # rises with time: items are listed newest first
    at_ms: int
    account: Key
    region: str
    protocol: Key
    destination: str
    message_id: str
    topic_arn: str = ""  # '' for a message published to the destination itself
    subscription_arn: str = ""
    sender: str = ""  # sender name of a mail or a text message
    subject: str | None = None
    message: str = ""  # the text for this protocol
    body: str = ""  # what the endpoint gets: Lambda event, Firehose record, mail
    structured: bool = False
    attributes: dict[str, tuple[str, str]] = {}


def item_id(at_ms: int, message_id: str, destination: str) -> str:
    """The same id for every attempt of a delivery, so that a duplicate overwrites its item."""
    digest = blake2b(f"{message_id} {destination}".encode(), digest_size=_DIGEST_BYTES)
    return f"{at_ms:013d}-{digest.hexdigest()}"
