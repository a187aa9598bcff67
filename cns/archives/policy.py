"""ArchivePolicy: whether a topic archives its messages, and for how many days."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from cns.archives.model import Archive
from cns.delivery.envelope import timestamp_text
from cns.errors import invalid_parameter
from cns.topics.topic import Topic
from cns_common.durations import DAY_MS
from cns_common.errors import UNREADABLE
from cns_common.ids import hex_id

ARCHIVE_POLICY = "ArchivePolicy"
BEGINNING_ARCHIVE_TIME = "BeginningArchiveTime"

POLICY_CHARS_MAX = 1_024
"""The limit of the text, which is stored as it was given. AWS's limit is not known."""
_DAYS_MAX = 365
_KEY = "MessageRetentionPeriod"


_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def policy_to_store(text: str, prefix: str) -> str:
    """Check a policy. Return the text to store and to show, which is the caller's.

    '' stands for no policy; the caller may give it as `{}` or ''.
    """
    if not text.strip():
        return ""
    members = policy_members(ARCHIVE_POLICY, text, prefix, _KEY)
    if not members:
        return ""
    if _days(members[_KEY]) is None:
        raise invalid_parameter(f"{prefix}{ARCHIVE_POLICY}: {_KEY} value is invalid")
    return text


def policy_members(attribute: str, text: str, prefix: str, *required: str) -> dict[str, msgspec.Raw]:
    """Parse a policy's JSON object. It has no members, or at least those that are required."""
    if len(text) > POLICY_CHARS_MAX:
        raise invalid_parameter(f"{prefix}{attribute}: Unable to parse JSON")
    try:
        members = _members(text.encode())
    except msgspec.ValidationError:
        members = None
    except UNREADABLE:
        raise invalid_parameter(f"{prefix}{attribute}: Unable to parse JSON") from None
    if members is None or (members and not members.keys() >= set(required)):
        raise invalid_parameter(f"{prefix}{attribute}: JSON is missing required fields")
    return members


def retention_ms(topic: Topic) -> int:
    """The retention period of a topic that has an archive."""
    days = _days(_members(topic.attributes[ARCHIVE_POLICY].encode())[_KEY])
    assert days is not None  # it was checked when it was stored
    return days * DAY_MS


def with_archive(topic: Topic, now_ms: int) -> Topic:
    """The topic with a new archive, or without its archive, if its ArchivePolicy was set or removed."""
    if (ARCHIVE_POLICY in topic.attributes) == (topic.archive is not None):
        return topic
    return replace(topic, archive=Archive(hex_id(), now_ms) if ARCHIVE_POLICY in topic.attributes else None)


def beginning_ms(topic: Topic, now_ms: int) -> int | None:
    """The earliest time from which a replay may start; None without an archive."""
    if topic.archive is None:
        return None
    return max(topic.archive.began_ms, now_ms - retention_ms(topic))


def describe(topic: Topic, now_ms: int) -> dict[str, str]:
    """The attributes that GetTopicAttributes adds to the policy itself."""
    began_ms = beginning_ms(topic, now_ms)
    return {} if began_ms is None else {BEGINNING_ARCHIVE_TIME: timestamp_text(began_ms)}


def _days(period: msgspec.Raw) -> int | None:
    """The period, a number or a string, in days; None if it is invalid."""
    try:
        text = str(msgspec.json.decode(period, type=int | str))
    except msgspec.ValidationError:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_DAYS_MAX))):
        return None
    return int(text) if 1 <= int(text) <= _DAYS_MAX else None
