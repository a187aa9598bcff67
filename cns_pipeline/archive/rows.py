"""The rows of the archive table: everything that a replay needs to publish the message again."""

from __future__ import annotations

from typing import NamedTuple

from cns.archives.model import ArchivedMessage
from cns.notification import Notification
from cns.publishing.message_attributes import publish_bytes


class ArchivedAttribute(NamedTuple):
    """A message attribute; `value` is base64 for the type Binary."""

    name: str
    type: str
    value: str


class ArchiveRow(NamedTuple):
    """A message in the table. In the order `archive_began_ms`, `archive`, `key`, rows are in the order of replay.

    Times are ms since the epoch. `texts` has the text by protocol, always with 'default'. `size_bytes` counts texts and
    attributes. `at_ms` is the archive time (`cns.archives.model.archived_at_ms`), `published_ms` the publish time; rows
    of earlier versions have no `published_ms`.
    """

    topic_arn: str
    archive: str
    archive_began_ms: int
    key: str
    at_ms: int
    expires_ms: int
    message_id: str
    texts: dict[str, str]
    subject: str | None
    attributes: list[ArchivedAttribute]
    structured: bool
    signature_version: str
    sequence_number: str
    message_group_id: str
    message_deduplication_id: str
    trace_header: str
    replayed: bool
    size_bytes: int
    published_ms: int | None = None


def row_of(archive: str, began_ms: int, message: ArchivedMessage) -> ArchiveRow:
    each = message.notification
    return ArchiveRow(
        topic_arn=each.topic_arn,
        archive=archive,
        archive_began_ms=began_ms,
        key=message.key,
        at_ms=message.at_ms,
        expires_ms=message.expires_ms,
        message_id=each.id,
        texts=each.texts,
        subject=each.subject,
        attributes=[ArchivedAttribute(name, data_type, text) for name, (data_type, text) in each.attributes.items()],
        structured=each.structured,
        signature_version=each.signature_version,
        sequence_number=each.sequence_number,
        message_group_id=each.message_group_id,
        message_deduplication_id=each.message_deduplication_id,
        trace_header=each.trace_header,
        replayed=each.replayed,
        size_bytes=publish_bytes("".join(each.texts.values()), each.attributes),
        published_ms=each.timestamp_ms,
    )


def notification_of(row: ArchiveRow) -> Notification:
    """The notification that the archive had."""
    return Notification(
        id=row.message_id,
        topic_arn=row.topic_arn,
        timestamp_ms=row.at_ms if row.published_ms is None else row.published_ms,
        texts=row.texts,
        subject=row.subject,
        attributes={name: (data_type, value) for name, data_type, value in row.attributes},
        structured=row.structured,
        signature_version=row.signature_version,
        sequence_number=row.sequence_number,
        message_group_id=row.message_group_id,
        message_deduplication_id=row.message_deduplication_id,
        trace_header=row.trace_header,
        replayed=row.replayed,
    )
