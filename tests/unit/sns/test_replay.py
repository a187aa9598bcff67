"""Whether the fan-out sends a message to a subscription that replays."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cns.archives.replay import END_OF_ARCHIVE, LiveDelivery, Replay, ReplayStatus
from cns.notification import Notification

TOPIC = "arn:aws:sns:eu-west-1:111111111111:t.fifo"
MESSAGE = Notification(id="m", topic_arn=TOPIC, timestamp_ms=1_000, texts={"default": ""}, sequence_number="5")
REPLAY = Replay(
    id="r", topic_arn=TOPIC, archive_id="a", subscription_arn=f"{TOPIC}:s", policy="", start_ms=500, set_ms=2_000
)


@pytest.mark.parametrize(
    ("claimed", "sent", "decision"),
    [
        ("", "", LiveDelivery.NEVER),  # the replay will read it
        ("4", "", LiveDelivery.NEVER),
        ("5", "", LiveDelivery.LATER),  # the replay may be reading it now
        ("6", "4", LiveDelivery.LATER),
        ("5", "5", LiveDelivery.NOW),  # the replay has ended: the message came later, or is known by its id
        ("9", "6", LiveDelivery.NOW),
        (END_OF_ARCHIVE, "4", LiveDelivery.LATER),
        (END_OF_ARCHIVE, END_OF_ARCHIVE, LiveDelivery.NOW),
    ],
)
def test_by_how_far_the_replay_is(claimed: str, sent: str, decision: LiveDelivery) -> None:
    assert replace(REPLAY, claimed=claimed, sent=sent).live_delivery(MESSAGE, 0) is decision


@pytest.mark.parametrize(
    ("published_ms", "status", "decision"),
    [
        (499, "In progress", LiveDelivery.NOW),
        (500, "In progress", LiveDelivery.NEVER),
        (1_999, "In progress", LiveDelivery.NEVER),
        (2_000, "In progress", LiveDelivery.NEVER),
        (2_000, "Failed", LiveDelivery.NOW),
    ],
)
def test_outside_its_window(published_ms: int, status: ReplayStatus, decision: LiveDelivery) -> None:
    replay = replace(REPLAY, end_ms=2_000, status=status)
    assert replay.live_delivery(replace(MESSAGE, timestamp_ms=published_ms), 0) is decision


@pytest.mark.parametrize(("published_ms", "decision"), [(1_999, LiveDelivery.NOW), (2_000, LiveDelivery.NEVER)])
def test_a_replay_with_an_end_leaves_live_delivery_at_rest(published_ms: int, decision: LiveDelivery) -> None:
    replay = replace(REPLAY, end_ms=2_000, status="Completed", claimed=END_OF_ARCHIVE, sent=END_OF_ARCHIVE)
    assert replay.live_delivery(replace(MESSAGE, timestamp_ms=published_ms), 0) is decision
