"""What a publisher sent, on its way to being accepted: as it came, counted, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cns.notification import Attributes, Notification
from cns.publishing.message_attributes import Given, parse_attributes, publish_bytes
from cns.publishing.message_text import check_message, check_subject
from cns_common.errors import RequestError

NO_ATTRIBUTES: Attributes = {}


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One message as the publisher sent it."""

    message: str
    subject: str | None = None
    structure: str | None = None
    attributes: Mapping[str, Given]
    group_id: str | None = None
    deduplication_id: str | None = None


class Entry(msgspec.Struct, frozen=True):
    """One entry of a batch, its attributes checked; its text may have been refused."""

    draft: Draft
    attributes: Attributes
    size_bytes: int
    refusal: RequestError | None = None


class Sized(msgspec.Struct, frozen=True):
    """A notification, and the bytes it was counted with."""

    notification: Notification
    size_bytes: int


class Published(msgspec.Struct, frozen=True):
    """Of an accepted message; of the one that it repeats, if it does. The number is of FIFO topics only."""

    id: str
    sequence_number: str = ""


def read_entry(draft: Draft, path: str) -> Entry:
    """An entry of a batch. `path` names its attributes; a bad one refuses the whole batch."""
    attributes = parse_attributes(draft.attributes, path) if draft.attributes else NO_ATTRIBUTES
    try:
        check_subject(draft.subject)
        check_message(draft.message)
    except RequestError as refusal:
        return Entry(draft, attributes, 0, refusal)
    return Entry(draft, attributes, publish_bytes(draft.message, attributes))
