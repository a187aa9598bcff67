"""One tenant's burst, to a slow endpoint and to a fast one, hardly delays another tenant."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.processes import keys_in
from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic

pytestmark = pytest.mark.extended

SLOW = 2_000
FAST = 1_000
BATCH = 10
MANY = 100
"""Subscriptions of the fast endpoint: it answers fast, but publishes come faster than it can be sent to."""
SLOW_MS = 1_000
PUBLISHES = 20
OVERTAKEN_MAX = 3_000
"""Limit of sends of the burst, of 100,000, that end between a publish and its arrival: this count shows whether the
publish waits for its turn, where a time would show how busy the machine is."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Up]:
    """A service for one test: the backlog of a slow endpoint stays for long."""
    with running(tmp_path / "data") as started:
        yield started


def test_a_burst_of_one_account_does_not_delay_another(service: Up, receiver: str, other_receiver: str) -> None:
    loud = service.client("sns")
    quiet = service.client("sns", **keys_in(service.cns("account", "create").stdout))
    slow, fast, mine = Endpoint(receiver), Endpoint(receiver), Endpoint(other_receiver)
    slow.behave(delay_ms=SLOW_MS)
    bursts = [(subscribed(loud, slow), SLOW), (subscribed(loud, fast, MANY), FAST)]
    topic = subscribed(quiet, mine)

    def sent() -> int:
        count: int = fast.look(n=0)["received"]
        return count

    with ThreadPoolExecutor(2) as callers:
        ended = [callers.submit(burst, *each) for each in bursts]
        wait_until(lambda: slow.look(n=0)["received"] and sent() > BATCH * MANY)
        overtaken = []
        for n in range(PUBLISHES):
            before = sent()
            topic.publish(str(n))
            mine.wait(received=n + 1, duplicates=0)
            overtaken.append(sent() - before)
        assert sent() < FAST * MANY, "the burst lasted"
        for each in ended:
            each.result()
    assert sorted(overtaken)[PUBLISHES // 2] < OVERTAKEN_MAX, overtaken


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
