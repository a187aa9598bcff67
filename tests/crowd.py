"""A pytest plugin that fills the services that tests share: it finds tests that take a first page of a list for all.

    PYTEST_ADDOPTS="-p tests.crowd" make test

Each service that a fixture `service` of a session starts gets more queues, topics and subscriptions than a page has,
with names before and behind those of the tests.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lab.harness.service import Service

PAGE = 1_000
"""The largest page of any list (ListQueues)."""
SIDES = ("a-crowd", "z-crowd")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    value = yield
    if fixturedef.argname == "service" and fixturedef.scope == "session" and isinstance(value, Service):
        fill(value)
    return value


def fill(service: Service) -> None:
    sqs, sns = service.client("sqs"), service.client("sns")

    def add(name: str) -> None:
        sqs.create_queue(QueueName=name)
        topic = sns.create_topic(Name=name)["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=topic.replace(":sns:", ":sqs:"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, [f"{side}-{number}" for side in SIDES for number in range(PAGE + 1)]))
