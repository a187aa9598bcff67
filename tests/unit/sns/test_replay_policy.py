"""ReplayPolicy: valid values, and the range of a topic's archive."""

from __future__ import annotations

import json

import pytest

from cns.archives.model import Archive
from cns.archives.replay_policy import ReplayWindow, check_window, parse_replay_policy
from cns.topics.topic import Topic
from cns_common.errors import RequestError

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


def test_it_is_shown_as_it_was_given_without_blanks() -> None:
    parsed = parse_replay_policy(policy(EndingPoint="2026-01-02T00:00:00.000Z"), "")
    assert parsed is not None
    assert parsed.text == (
        '{"PointType":"Timestamp","StartingPoint":"2026-01-01T00:00:00.000Z","EndingPoint":"2026-01-02T00:00:00.000Z"}'
    )


_FORM = "must be a JSON object with PointType Timestamp, StartingPoint and, optionally, EndingPoint"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x", "failed to parse JSON."),
        ("\ud800", "failed to parse JSON."),
        ("{}", _FORM),
        ("[]", _FORM),
        (policy(PointType="Offset"), _FORM),
        (policy(PointType=None), _FORM),
        (policy(StartingPoint=None), _FORM),
        (policy(StartingPoint=5), _FORM),
        (policy(More="x"), _FORM),
        *[
            (policy(StartingPoint=text), "StartingPoint must be a timestamp such as 2026-01-31T08:00:00.000Z")
            for text in ("", "now", "2026-01-01", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", "٢026-01-01T00:00:00Z")
        ],
        (policy(EndingPoint="later"), "EndingPoint must be a timestamp such as 2026-01-31T08:00:00.000Z"),
        (policy(EndingPoint=START), "EndingPoint must be after StartingPoint"),
        (policy(EndingPoint="2025-01-01T00:00:00Z"), "EndingPoint must be after StartingPoint"),
    ],
)
def test_policies_refused(text: str, complaint: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_replay_policy(text, "Attributes Reason: ")
    assert refused.value.code == "InvalidParameter"
    assert refused.value.message == f"Invalid parameter: Attributes Reason: ReplayPolicy: {complaint}"


@pytest.mark.parametrize(
    ("start_ms", "now_ms", "complaint"),
    [
        (START_MS, START_MS, ""),
        (START_MS + 10, START_MS + 10, ""),
        (START_MS - 1, START_MS, "StartingPoint must not be before the topic's BeginningArchiveTime"),
        (START_MS, START_MS + 3 * 86_400_000, "StartingPoint must not be before the topic's BeginningArchiveTime"),
        (START_MS + 1, START_MS, "StartingPoint must not be in the future"),
    ],
)
def test_what_the_archive_can_have(start_ms: int, now_ms: int, complaint: str) -> None:
    window = ReplayWindow("", start_ms, 0)
    if not complaint:
        assert check_window(window, TOPIC, now_ms, "") == TOPIC.archive
        return
    with pytest.raises(RequestError) as refused:
        check_window(window, TOPIC, now_ms, "")
    assert refused.value.message == f"Invalid parameter: ReplayPolicy: {complaint}"
