"""ReplayPolicy: valid values, and the range of a topic's archive."""

from __future__ import annotations

import json

import pytest

from cns.archives.model import Archive
from cns.archives.replay_policy import ReplayWindow, check_window, parse_replay_policy
from cns.topics.topic import Topic
from tests.unit.sns.refusals import complaint_of

START = "2026-01-01T00:00:00.000Z"
START_MS = 1_767_225_600_000
TOPIC = Topic(
    id="1",
    account="111111111111",
    region="eu-west-1",
    name="t.fifo",
    created_ms=1,
    attributes={"ArchivePolicy": '{"MessageRetentionPeriod":2}'},
    archive=Archive("a", START_MS),
)


def policy(**members: object) -> str:
    given = {"PointType": "Timestamp", "StartingPoint": START, **members}
    return json.dumps({name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("", None),
        ("{}", None),
        (policy(More="x"), (START_MS, 0)),
        (policy(), (START_MS, 0)),
        (policy(StartingPoint="2026-01-01T00:00:00Z"), (START_MS, 0)),
        (policy(StartingPoint="2026-01-01T01:00:00.007+01:00"), (START_MS + 7, 0)),
        (policy(StartingPoint="2026-01-01T00:00:00.123456789Z"), (START_MS + 123, 0)),
        (policy(EndingPoint="2026-01-01T00:00:00.001Z"), (START_MS, START_MS + 1)),
    ],
)
def test_windows(text: str, window: tuple[int, int] | None) -> None:
    parsed = parse_replay_policy(text, "")
    assert (parsed and (parsed.start_ms, parsed.end_ms)) == window


def test_it_is_shown_as_it_was_given() -> None:
    given = '{"PointType": "Timestamp", "EndingPoint": "2026-01-02T00:00:00Z" ,"StartingPoint":"2026-01-01T00:00:00Z"}'
    parsed = parse_replay_policy(given, "")
    assert parsed is not None
    assert parsed.text == given


_MISSING = "JSON is missing required fields"


@pytest.mark.spec("replay.form")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x", "Unable to parse JSON"),
        ("\ud800", "Unable to parse JSON"),
        ("[]", _MISSING),
        (policy(PointType="Offset"), "Invalid PointType"),
        (policy(PointType=1), "Invalid PointType"),
        (policy(PointType=None), _MISSING),
        (policy(StartingPoint=None), _MISSING),
        *[
            (policy(StartingPoint=text), "Invalid StartingPoint value")
            for text in (
                *("", "now", "2026-01-01", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", "٢026-01-01T00:00:00Z"),
                5,
            )
        ],
        (policy(EndingPoint="later"), "Invalid EndingPoint value"),
        (policy(EndingPoint=""), "Invalid EndingPoint value"),
        (policy(EndingPoint=START), "Invalid EndingPoint value"),
        (policy(EndingPoint="2025-01-01T00:00:00Z"), "Invalid EndingPoint value"),
    ],
)
def test_policies_refused(text: str, complaint: str) -> None:
    assert (
        complaint_of(parse_replay_policy, text, "Attributes Reason: ")
        == f"Attributes Reason: ReplayPolicy: {complaint}"
    )


@pytest.mark.parametrize(
    ("start_ms", "now_ms", "allowed"),
    [
        (START_MS, START_MS, True),
        (START_MS + 10, START_MS + 10, True),
        (START_MS - 1, START_MS, False),
        (START_MS, START_MS + 3 * 86_400_000, False),
        (START_MS + 1, START_MS, False),
    ],
)
def test_what_the_archive_can_have(start_ms: int, now_ms: int, *, allowed: bool) -> None:
    window = ReplayWindow("", start_ms, 0)
    if allowed:
        assert check_window(window, TOPIC, now_ms, "") == TOPIC.archive
        return
    assert complaint_of(check_window, window, TOPIC, now_ms, "") == "ReplayPolicy: Invalid StartingPoint value"
