"""One broker and one service without a worker of its own; each test starts the Celery processes it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.own_redis import OwnRedis
from lab.harness.running import Up, running
from tests.acceptance.conftest import endpoint, receiver
from tests.acceptance.topics import Topic
from tests.celery_host.celery_running import Celery

__all__ = ["endpoint", "receiver"]

BEAT_S = 1


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    started = OwnRedis(tmp_path_factory.mktemp("broker"))
    started.start()
    yield started
    started.kill()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """API and store without a worker."""
    data = tmp_path_factory.mktemp("service") / "data"
    with running(data, "--test-clock", "--no-worker", page="/live") as started:  # it is not ready without a worker
        yield started


@pytest.fixture
def celery(service: Up, broker: OwnRedis, tmp_path: Path) -> Iterator[Celery]:
    """Kill the processes that a test left running."""
    celery = Celery(
        tmp_path,
        {
            "CNS_DATA": str(service.data),
            "CNS_PORT": service.url.rpartition(":")[2],
            "CNS_BROKER": broker.url,
            "CNS_MAINTENANCE_S": str(BEAT_S),
        },
    )
    yield celery
    celery.kill_all()


@pytest.fixture
def topic(service: Up, endpoint: Endpoint) -> Topic:
    sns = service.client("sns")
    return Topic(sns, sns.create_topic(Name=endpoint.name)["TopicArn"])
