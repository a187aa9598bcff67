"""Redis channels as endpoints: our addition to the protocols of Subscribe."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from lab.harness.own_redis import OwnRedis
from lab.harness.service import Service
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.topics import Topic, signature_is_good


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def channel(server: OwnRedis) -> str:
    return f"redis://127.0.0.1:{server.port}/{uuid.uuid4().hex}"


class Listener:
    def __init__(self, channel: str) -> None:
        self._client = redis.Redis.from_url(channel.rpartition("/")[0])
        self._heard: Any = self._client.pubsub()  # type: ignore[no-untyped-call]  # redis-py does not annotate it
        self._heard.subscribe(channel.rpartition("/")[2])
        self._heard.get_message(timeout=PATIENCE_S)

    def next(self) -> str:
        message = self._heard.get_message(timeout=PATIENCE_S)
        assert message is not None, "nothing was heard"
        return str(message["data"].decode())

    def close(self) -> None:
        self._heard.close()
        self._client.close()


@pytest.fixture
def listener(channel: str) -> Iterator[Listener]:
    listener = Listener(channel)
    yield listener
    listener.close()


def test_what_is_published_is_heard(topic: Topic, channel: str, listener: Listener) -> None:
    """The channel gets the envelope that an HTTP endpoint would get, without a confirmation."""
    subscription = topic.request_subscription("redis", channel)
    assert subscription.startswith(topic.arn)
    published = topic.publish("hello", Subject="s")
    envelope = json.loads(listener.next())
    assert (envelope["MessageId"], envelope["Message"], envelope["Subject"]) == (published, "hello", "s")
    assert envelope["UnsubscribeURL"].endswith(f"SubscriptionArn={subscription}")
    assert signature_is_good(envelope)


def test_raw(topic: Topic, channel: str, listener: Listener) -> None:
    topic.subscribe("redis", channel, RawMessageDelivery="true")
    topic.publish("just this")
    assert listener.next() == "just this"


def test_what_redis_does_not_take_is_tried_again(
    service: Service, topic: Topic, server: OwnRedis, channel: str
) -> None:
    server.kill()
    subscription = topic.subscribe("redis", channel, RawMessageDelivery="true")
    topic.publish("late")
    wait_until(lambda: service.events("delivery_attempt.failed", subscription=subscription, cause="connection"))
    server.start()
    listener = Listener(channel)
    service.advance(23)
    assert listener.next() == "late"
    listener.close()
