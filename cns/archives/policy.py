"""ArchivePolicy: whether a topic archives its messages, and for how many days."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from cns.archives.model import Archive
from cns.delivery.envelope import timestamp_text
from cns.errors import invalid_parameter
from cns.topics.topic import Topic
from cns_common.ids import hex_id

ARCHIVE_POLICY = "ArchivePolicy"
BEGINNING_ARCHIVE_TIME = "BeginningArchiveTime"

_DAY_MS = 86_400_000
_DAYS_MAX = 365
_KEY = "MessageRetentionPeriod"


class ArchivePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    MessageRetentionPeriod: int | str | msgspec.UnsetType = msgspec.UNSET  # the API's name


_decode = msgspec.json.Decoder(ArchivePolicy).decode


def policy_to_store(text: str, prefix: str) -> str:
    """Check a policy. Return the text to store and to show: the period as it was given, a number or a string.

    '' stands for no policy; the caller may give it as `{}` or ''.
    """
    if not text.strip():
        return ""
    try:
        period = _decode(text.encode()).MessageRetentionPeriod
    except msgspec.ValidationError:
        raise invalid_parameter(f"{prefix}{ARCHIVE_POLICY}: must be a JSON object whose only key is {_KEY}") from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise invalid_parameter(f"{prefix}{ARCHIVE_POLICY}: failed to parse JSON.") from None
    if period is msgspec.UNSET:
        return ""
    if _days(str(period)) is None:
        raise invalid_parameter(f"{prefix}{ARCHIVE_POLICY}: {_KEY} must be an integer between 1 and {_DAYS_MAX}")
    return msgspec.json.encode({_KEY: period}).decode()


def retention_ms(topic: Topic) -> int:
    """The retention period of a topic that has an archive."""
    period = _decode(topic.attributes[ARCHIVE_POLICY].encode()).MessageRetentionPeriod
    return int(period or 0) * _DAY_MS


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


def _days(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_DAYS_MAX))):
        return None
    return int(text) if 1 <= int(text) <= _DAYS_MAX else None
