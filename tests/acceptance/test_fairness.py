"""One tenant's burst, to an endpoint that is slow and to one that is not, is hardly felt by another tenant."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.endpoints import Endpoint
from tests.acceptance.running import Up, keys_in, running
from tests.acceptance.topics import Topic
from tests.waiting import wait_until

SLOW = 2_000
FAST = 1_000
BATCH = 10
MANY = 100
"""Subscriptions of the fast endpoint: faster as it is, it cannot be sent to as quickly as is published to it."""
SLOW_MS = 1_000
PUBLISHES = 60
EVERY_S = 0.05
OVERTAKEN_MAX = 1_000
"""A slow machine is slow for both: not how long a message takes says whether it waits for its turn, but how many of the
burst are sent meanwhile."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Up]:
    """Of its own: the backlog of a slow endpoint stays for long."""
    with running(tmp_path / "data") as started:
        yield started


def test_a_burst_of_one_account_does_not_delay_another(
    service: Up, receiver: str, other_receiver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = service.client("sns")
    quiet = service.client("sns", **keys_in(service.cns("account", "create").stdout))
    slow, fast, mine = Endpoint(receiver), Endpoint(receiver), Endpoint(other_receiver)
    slow.behave(delay_ms=SLOW_MS)
    bursts = [(subscribed(loud, slow), SLOW), (subscribed(loud, fast, MANY), FAST)]
    topic = subscribed(quiet, mine)
    alone = delays(topic, mine)
    with ThreadPoolExecutor(2) as callers:
        ended = [callers.submit(burst, *each) for each in bursts]
        wait_until(lambda: slow.look(n=1)["received"] and fast.look(n=1)["received"] > BATCH * MANY, 20)
        begun_s, before = time.monotonic(), fast.look(n=1)["received"]
        beside = delays(topic, mine)
        sent = fast.look(n=1)["received"] - before
        a_second = sent / (time.monotonic() - begun_s)
        for each in ended:
            each.result()
    overtaken, overtaken_at_worst = at(beside, 0.5) * a_second, at(beside, 0.95) * a_second
    with capsys.disabled():
        print(f"\npublish → arrival, median and p95: alone {shown(alone)}, beside a burst {shown(beside)}")
        print(f"of which {a_second:.0f} a second were sent: {overtaken:.0f} and {overtaken_at_worst:.0f} overtook")
    assert before + sent < FAST * MANY, "all of that time there was a burst"
    assert overtaken < OVERTAKEN_MAX
    assert overtaken_at_worst < 3 * OVERTAKEN_MAX


def subscribed(sns: Any, endpoint: Endpoint, times: int = 1) -> Topic:
    topic = Topic(sns, sns.create_topic(Name=endpoint.name)["TopicArn"])
    for n in range(times):
        topic.subscribe("http", f"{endpoint.url}?tag={n}")
    return topic


def burst(topic: Topic, count: int) -> None:
    for first in range(0, count, BATCH):
        entries = [{"Id": str(n), "Message": f"{first + n}"} for n in range(BATCH)]
        answer = topic.sns.publish_batch(TopicArn=topic.arn, PublishBatchRequestEntries=entries)
        assert len(answer["Successful"]) == BATCH


def delays(topic: Topic, endpoint: Endpoint) -> list[float]:
    """From the answer to each of some publishes to its arrival, sorted."""
    before = endpoint.look(n=1)["received"]
    answered: dict[str, float] = {}
    begun_s = time.monotonic()
    for n in range(PUBLISHES):
        wait_s = begun_s + n * EVERY_S - time.monotonic()
        threading.Event().wait(max(wait_s, 0.0))
        answered[topic.publish(str(n))] = time.time()
    endpoint.wait(received=before + PUBLISHES, duplicates=0)
    arrived = {note["message_id"]: note["arrived_ms"] / 1000 for note in endpoint.notifications()}
    return sorted(max(arrived[message] - at_s, 0.001) for message, at_s in answered.items())


def at(values: list[float], share: float) -> float:
    return values[int(len(values) * share)]


def shown(values: list[float]) -> str:
    return f"{at(values, 0.5) * 1000:.0f} and {at(values, 0.95) * 1000:.0f} ms"
