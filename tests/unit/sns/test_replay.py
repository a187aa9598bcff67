"""Whose turn a message is, while its subscription replays."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cns.archives.replay import ALL, Replay, ReplayStatus, Turn
from cns.notification import Notification

TOPIC = "arn:aws:sns:eu-west-1:111111111111:t.fifo"
MESSAGE = Notification(id="m", topic_arn=TOPIC, timestamp_ms=1_000, texts={"default": ""}, sequence_number="5")
REPLAY = Replay(
    id="r", topic_arn=TOPIC, archive_id="a", subscription_arn=f"{TOPIC}:s", policy="", start_ms=500, set_ms=2_000
)


@pytest.mark.parametrize(
    ("claimed", "sent", "turn"),
    [
        ("", "", Turn.NEVER),  # the replay will read it
        ("4", "", Turn.NEVER),
        ("5", "", Turn.LATER),  # it may be reading it
        ("6", "4", Turn.LATER),
        ("5", "5", Turn.NOW),  # it has read what was there, and this came later, or is known by its id
        ("9", "6", Turn.NOW),
        (ALL, "4", Turn.LATER),
        (ALL, ALL, Turn.NOW),
    ],
)
def test_by_how_far_the_replay_is(claimed: str, sent: str, turn: Turn) -> None:
    assert replace(REPLAY, claimed=claimed, sent=sent).turn(MESSAGE) is turn


@pytest.mark.parametrize(
    ("published_ms", "status", "turn"),
    [
        (499, "In progress", Turn.NOW),
        (500, "In progress", Turn.NEVER),
        (1_999, "In progress", Turn.NEVER),
        (2_000, "In progress", Turn.NEVER),
        (2_000, "Failed", Turn.NOW),
    ],
)
def test_outside_its_window(published_ms: int, status: ReplayStatus, turn: Turn) -> None:
    replay = replace(REPLAY, end_ms=2_000, status=status)
    assert replay.turn(replace(MESSAGE, timestamp_ms=published_ms)) is turn


@pytest.mark.parametrize(("published_ms", "turn"), [(1_999, Turn.NOW), (2_000, Turn.NEVER)])
def test_a_replay_with_an_end_leaves_live_delivery_at_rest(published_ms: int, turn: Turn) -> None:
    replay = replace(REPLAY, end_ms=2_000, status="Completed", claimed=ALL, sent=ALL)
    assert replay.turn(replace(MESSAGE, timestamp_ms=published_ms)) is turn
