"""The bodies of a dead-letter queue that the portal accepts as letters of a subscription."""

from __future__ import annotations

import json

import pytest

from cns_server.portal.dead_letters import LetterEnvelope, letters_of
from cqs.queues.model import Body, encode_body

TOPIC = "arn:aws:sns:us-east-1:111111111111:t.fifo"
SUBSCRIPTION = f"{TOPIC}:s"


def stored(text: str) -> bytes:
    return encode_body(Body(text, "", "", 0))


def letter(**more: object) -> bytes:
    members = {
        "Type": "Notification",
        "MessageId": "m",
        "TopicArn": TOPIC,
        "Message": "text",
        "Timestamp": "2026-01-02T03:04:05.678Z",
        "UnsubscribeURL": f"http://localhost:6059/?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}",
    }
    return stored(json.dumps(members | more))


def read(*bodies: bytes) -> list[LetterEnvelope]:
    return list(letters_of(bodies, SUBSCRIPTION, lambda _: None))


@pytest.mark.parametrize("year", ["0001-01-01", "1969-12-31", "9999-12-31"])
@pytest.mark.parametrize("offset", ["Z", "+23:00", "-23:00"])
def test_times_that_no_page_can_show_are_no_letters(year: str, offset: str) -> None:
    (good,) = read(letter(Timestamp=f"{year}T00:00:00{offset}"), letter())
    assert good.timestamp_ms == 1_767_323_045_678


def test_other_texts_are_no_letters() -> None:
    deep = '{"Type":"Notification","x":' + "[" * 100_000
    others = [stored(text) for text in ("", "text", "[]", '{"Type":"Notification"}', deep)]
    assert read(b"", *others, letter(TopicArn="t"), letter(UnsubscribeURL="")) == []
