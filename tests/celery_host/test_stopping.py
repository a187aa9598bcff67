"""Each way in which a hosted worker ends under load: nothing is lost, and nothing settled is repeated."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.own_redis import OwnRedis
from lab.harness.running import Up
from lab.harness.waiting import wait_until
from tests.acceptance.sns.test_retries import queues_of
from tests.acceptance.topics import Topic
from tests.celery_host.celery_running import Celery
from tests.celery_host.load import all_arrived, publish_many

MESSAGES = 300
DELAY_MS = 200
LEASE_S = 31
SETTLED = 10


@pytest.mark.slice
def test_warm_shutdown_loses_nothing_and_repeats_nothing(celery: Celery, topic: Topic, endpoint: Endpoint) -> None:
    worker = celery.worker("one")
    topic.subscribe("http", endpoint.url)
    endpoint.behave(delay_ms=DELAY_MS)
    ids = publish_many(topic, MESSAGES)
    wait_until(lambda: endpoint.look(n=0)["received"])
    assert worker.stop() == 0
    (stopped,) = worker.events("worker.stopped")
    assert (stopped["jobs_given_back"], stopped["sends_unfinished"]) == (0, 0)
    delivered = endpoint.look(n=0)
    assert 0 < delivered["accepted"] == delivered["received"]
    celery.worker("two")
    assert all_arrived(endpoint, ids)["received"] == MESSAGES


def test_warm_shutdown_does_not_wait_for_a_silent_broker(
    broker: OwnRedis, celery: Celery, topic: Topic, endpoint: Endpoint
) -> None:
    worker = celery.worker("one")
    worker.wait_connected()
    topic.subscribe("http", endpoint.url)
    broker.pause()
    try:
        topic.publish("x")
        endpoint.wait(received=1, accepted=1)
        assert worker.stop() == 0
    finally:
        broker.resume()
    assert worker.events("worker.stopped")


def test_cold_shutdown_cuts_a_warm_one_short(celery: Celery, topic: Topic, endpoint: Endpoint) -> None:
    worker = celery.worker("one")
    topic.subscribe("http", endpoint.url)
    endpoint.behave(hang=True, times=1)
    topic.publish("hangs for longer than anybody waits")
    endpoint.wait(received=1)
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: "Warm shutdown" in worker.output())
    worker.send_signal(signal.SIGQUIT)
    assert worker.wait() == 0
    assert not worker.events("worker.stopped")
    celery.worker("two")  # the store gave the job back when the connection of the first worker closed
    endpoint.wait(received=2, accepted=1, retries=1)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGQUIT, 0)])
def test_a_dead_worker_loses_nothing_and_repeats_only_what_was_not_settled(
    service: Up, celery: Celery, topic: Topic, endpoint: Endpoint, number: signal.Signals, exit_code: int
) -> None:
    worker, _ = celery.workers("one", "two")
    topic.subscribe("http", endpoint.url)
    settled = publish_many(topic, SETTLED)
    all_arrived(endpoint, settled)
    wait_until(lambda: not any(queues_of(service, message) for message in settled), lambda: "jobs are left")
    endpoint.behave(delay_ms=DELAY_MS)
    first = publish_many(topic, MESSAGES)
    wait_until(lambda: endpoint.look(n=0)["accepted"] > SETTLED)
    worker.send_signal(number)
    second = publish_many(topic, MESSAGES)
    assert worker.wait() == exit_code, worker.output()
    service.advance(LEASE_S)
    all_arrived(endpoint, settled + first + second)
    times = Counter(record["message_id"] for record in endpoint.notifications())
    assert [times[message] for message in settled] == [1] * SETTLED
