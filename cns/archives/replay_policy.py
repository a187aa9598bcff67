"""ReplayPolicy: from which time, and until which time, a subscription gets its topic's archived messages again."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from cns.archives.model import Archive
from cns.archives.policy import beginning_ms, policy_members
from cns.errors import invalid_parameter
from cns.topics.topic import Topic
from cns_common.errors import RequestError

REPLAY_POLICY = "ReplayPolicy"
_START = "StartingPoint"
_END = "EndingPoint"

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ReplayWindow(msgspec.Struct, frozen=True):
    """The publish times to replay: from `start_ms`, before `end_ms` (0: no end). `text` is the policy to show."""

    text: str
    start_ms: int
    end_ms: int


def parse_replay_policy(text: str, prefix: str) -> ReplayWindow | None:
    """Parse a policy. The texts '' and `{}`, which remove a policy, give None."""
    if not text:
        return None
    members = policy_members(REPLAY_POLICY, text, prefix, "PointType", _START)
    if not members:
        return None
    if _string(members["PointType"]) != "Timestamp":
        raise invalid_parameter(f"{prefix}{REPLAY_POLICY}: Invalid PointType")
    start_ms = _read_ms(_START, members[_START], prefix)
    end_ms = _read_ms(_END, members[_END], prefix) if _END in members else 0
    if _END in members and end_ms <= start_ms:
        raise _invalid_point(_END, prefix)
    return ReplayWindow(text, start_ms, end_ms)


def check_window(window: ReplayWindow, topic: Topic, now_ms: int, prefix: str) -> Archive:
    """Return the topic's archive. Raise if it cannot hold the window."""
    began_ms = beginning_ms(topic, now_ms)
    if topic.archive is None or began_ms is None:
        raise invalid_parameter(f"{prefix}{REPLAY_POLICY}: Topic does not have an ArchivePolicy")
    if not began_ms <= window.start_ms <= now_ms:
        raise _invalid_point(_START, prefix)
    return topic.archive


def _read_ms(name: str, member: msgspec.Raw, prefix: str) -> int:
    text = _string(member)
    try:
        if not _TIMESTAMP.fullmatch(text):
            raise ValueError
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise _invalid_point(name, prefix) from None


def _string(member: msgspec.Raw) -> str:
    """The member's value, '' unless it is a string."""
    try:
        return msgspec.json.decode(member, type=str)
    except msgspec.ValidationError:
        return ""


def _invalid_point(name: str, prefix: str) -> RequestError:
    return invalid_parameter(f"{prefix}{REPLAY_POLICY}: Invalid {name} value")
