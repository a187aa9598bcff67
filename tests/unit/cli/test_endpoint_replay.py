"""Replays to an endpoint: what is sent, retried and given up, and what the operator is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from cns.delivery.delivery_policy import delivery_terms
from cns.delivery.envelope import Confirmation
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.notification import Notification
from cns_cli.replay.endpoint_destination import RETRIES_AFTER_S, SENDS_AT_ONCE, EndpointContext, EndpointDestination
from cns_cli.replay.model import PAGE_MESSAGES, ReplayStopped
from cns_common.clock import Clock
from cns_common.events.schema import DeliveryAttempted
from cns_workers.delivery.channel import Attempt
from tests.recorded_events import RecordedEvents

URL = "http://127.0.0.1:9/hook"
TOPIC = "arn:aws:sns:us-east-1:000000000000:t"
DELIVERED = Delivered(status=200, dwell_ms=1)
DEAD = Failed(Cause.CONNECTION, "connection refused", 1)
REFUSED = Failed(Cause.STATUS, "403", 1, status=403, permanent=True)
TARGET = Target(
    arn="",
    protocol="http",
    endpoint=URL,
    confirmed=True,
    raw=False,
    retry=delivery_terms(None, None, False).retry,
    content_type="text/plain",
    dead_letter_arn="",
    signature_version="1",
    account="000000000000",
    region="us-east-1",
)


class Endpoint:
    """A channel whose endpoint answers by the message's number and how often it was sent."""

    def __init__(self, answer: Callable[[int, int], Outcome]) -> None:
        self._answer = answer
        self.sent: list[int] = []

    def traffic_key(self, target: Target) -> str:
        return URL

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        number = int(notification.id)
        self.sent.append(number)
        answered: Attempt = asyncio.get_running_loop().create_future()
        answered.set_result(self._answer(number, self.sent.count(number)))
        return answered

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        raise AssertionError


class Site:
    def __init__(self, answer: Callable[[int, int], Outcome]) -> None:
        self.endpoint = Endpoint(answer)
        self.events = RecordedEvents()
        self.slept: list[float] = []
        self.told: list[str] = []
        context = EndpointContext(self.endpoint, TARGET, Clock(), self.events, self._sleep, self.told.append)
        self.destination = EndpointDestination(context, "replay")

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


def page(group: str = "") -> Sequence[Notification]:
    topic = f"{TOPIC}.fifo" if group else TOPIC
    return [
        Notification(id=str(number), topic_arn=topic, timestamp_ms=1, texts={"default": "text"}, message_group_id=group)
        for number in range(PAGE_MESSAGES)
    ]


async def test_a_dead_endpoint_is_told_at_once_and_ends_the_page_with_its_first_messages() -> None:
    site = Site(lambda _, __: DEAD)
    with pytest.raises(ReplayStopped, match=f"{URL} does not take message 0: connection refused"):
        await site.destination.send(page())
    assert set(site.endpoint.sent) == set(range(SENDS_AT_ONCE)), "no other message was begun"
    retries = len(RETRIES_AFTER_S)
    text = f"{URL} fails: connection refused; each message is tried {retries} times more, then the replay stops"
    assert site.told == [text]
    assert len(site.endpoint.sent) <= SENDS_AT_ONCE * (1 + retries)


async def test_nothing_is_begun_after_a_message_that_is_refused() -> None:
    site = Site(lambda number, _: REFUSED if number == 3 else DELIVERED)
    with pytest.raises(ReplayStopped, match="does not take message 3: 403"):
        await site.destination.send(page())
    assert (set(site.endpoint.sent) <= set(range(SENDS_AT_ONCE)), site.told) == (True, [])


async def test_a_group_stays_in_order_over_failures() -> None:
    site = Site(lambda number, times: DEAD if number % 10 == 0 and times < 3 else DELIVERED)
    assert await site.destination.send(page("g")) == PAGE_MESSAGES
    assert list(dict.fromkeys(site.endpoint.sent)) == list(range(PAGE_MESSAGES))
    assert site.slept == list(RETRIES_AFTER_S[:2]) * 10
    assert len(site.told) == 10, "once for each time that it fails"
    attempts = [event for event in site.events.events if isinstance(event, DeliveryAttempted)]
    assert [event.attempt for event in attempts if event.message_id == "0"] == [1, 2, 3]
