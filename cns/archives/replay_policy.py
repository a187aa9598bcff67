"""ReplayPolicy: from which time, and until which time, a subscription gets its topic's archived messages again."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from cns.archives.model import Archive
from cns.archives.policy import beginning_ms
from cns.errors import invalid_parameter
from cns.topics.topic import Topic

REPLAY_POLICY = "ReplayPolicy"

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_FORM = "must be a JSON object with PointType Timestamp, StartingPoint and, optionally, EndingPoint"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ReplayPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    PointType: Literal["Timestamp"]
    StartingPoint: str
    EndingPoint: str = ""


class ReplayWindow(msgspec.Struct, frozen=True):
    """The publish times to replay: from `start_ms`, before `end_ms` (0: no end). `text` is the policy to show."""

    text: str
    start_ms: int
    end_ms: int


_decode = msgspec.json.Decoder(ReplayPolicy).decode


def parse_replay_policy(text: str, prefix: str) -> ReplayWindow | None:
    """Parse a policy. The text '', which removes a policy, gives None."""
    if not text:
        return None
    try:
        policy = _decode(text.encode())
    except msgspec.ValidationError:
        raise invalid_parameter(f"{prefix}{REPLAY_POLICY}: {_FORM}") from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise invalid_parameter(f"{prefix}{REPLAY_POLICY}: failed to parse JSON.") from None
    start_ms = _read_ms("StartingPoint", policy.StartingPoint, prefix)
    end_ms = _read_ms("EndingPoint", policy.EndingPoint, prefix) if policy.EndingPoint else 0
    if policy.EndingPoint and end_ms <= start_ms:
        raise invalid_parameter(f"{prefix}{REPLAY_POLICY}: EndingPoint must be after StartingPoint")
    return ReplayWindow(msgspec.json.encode(policy).decode(), start_ms, end_ms)


def check_window(window: ReplayWindow, topic: Topic, now_ms: int, prefix: str) -> Archive:
    """Return the topic's archive. Raise if it cannot hold the window."""
    began_ms = beginning_ms(topic, now_ms)
    if topic.archive is None or began_ms is None:
        raise invalid_parameter(f"{prefix}{REPLAY_POLICY}: the topic has no active ArchivePolicy")
    if window.start_ms < began_ms:
        raise invalid_parameter(
            f"{prefix}{REPLAY_POLICY}: StartingPoint must not be before the topic's BeginningArchiveTime"
        )
    if window.start_ms > now_ms:
        raise invalid_parameter(f"{prefix}{REPLAY_POLICY}: StartingPoint must not be in the future")
    return topic.archive


def _read_ms(name: str, text: str, prefix: str) -> int:
    try:
        if not _TIMESTAMP.fullmatch(text):
            raise ValueError
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise invalid_parameter(
            f"{prefix}{REPLAY_POLICY}: {name} must be a timestamp such as 2026-01-31T08:00:00.000Z"
        ) from None
