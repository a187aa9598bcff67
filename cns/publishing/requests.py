"""The values of a publish: the request, a batch entry, the notification with its size, the result."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cns.notification import Attributes, Notification
from cns.publishing.message_attributes import MessageAttributeValue, parse_attributes, publish_bytes
from cns.publishing.message_text import check_message, check_subject
from cns_common.errors import RequestError

NO_ATTRIBUTES: Attributes = {}


class PublishRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One message as the publisher sent it, unchecked."""

    message: str
    subject: str | None = None
    structure: str | None = None
    attributes: Mapping[str, MessageAttributeValue]
    group_id: str | None = None
    deduplication_id: str | None = None


class BatchEntry(msgspec.Struct, frozen=True):
    """One entry of a batch with checked attributes. `refusal` says what is wrong with its text or subject."""

    request: PublishRequest
    attributes: Attributes
    size_bytes: int
    refusal: RequestError | None = None


class SizedNotification(msgspec.Struct, frozen=True):
    """`size_bytes` counts message and attributes, as for MaximumMessageSize."""

    notification: Notification
    size_bytes: int


class PublishResult(msgspec.Struct, frozen=True):
    """Ids of the accepted message, or of the message that it duplicates. Only FIFO topics have a sequence number."""

    id: str
    sequence_number: str = ""


def read_entry(request: PublishRequest, path: str) -> BatchEntry:
    """Check an entry of a batch. `path` names its attributes in errors; a bad attribute refuses the whole batch."""
    attributes = parse_attributes(request.attributes, path) if request.attributes else NO_ATTRIBUTES
    try:
        check_subject(request.subject)
        check_message(request.message)
    except RequestError as refusal:
        return BatchEntry(request, attributes, 0, refusal)
    return BatchEntry(request, attributes, publish_bytes(request.message, attributes))
