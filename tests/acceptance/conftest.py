"""One service and one HTTP receiver, shared by all tests that do not break them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.harness.clustered import CLUSTER, serving
from lab.harness.endpoints import Endpoint, running_receiver
from lab.harness.processes import keys_in
from lab.harness.running import Up, running
from lab.harness.service import Service
from tests.acceptance.topics import Topic

SAID_CHARS = 20_000

_CLUSTER_ONLY = [
    "cluster/test_cluster.py",
    "cluster/test_engines.py",
    "cluster/test_debug_views.py",
    "cluster/test_scalers.py",
]
collect_ignore = [] if CLUSTER else _CLUSTER_ONLY


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that checks signatures, with a test clock."""
    with _serving(tmp_path_factory.mktemp("service"), "--test-clock") as started:
        yield started


@pytest.fixture(scope="session")
def open_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that accepts any credentials."""
    with _serving(tmp_path_factory.mktemp("open"), "--auth=off") as started:
        yield started


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service in LocalStack's place."""
    with running(tmp_path_factory.mktemp("localstack") / "data", "--compat", "localstack", "--test-clock") as started:
        yield started


@pytest.fixture(scope="session")
def sqs(service: Service) -> Any:
    return service.client("sqs")


@pytest.fixture(scope="session")
def sns(service: Service) -> Any:
    return service.client("sns")


@pytest.fixture(scope="session")
def stranger(service: Service) -> dict[str, str]:
    """The keys of a second account."""
    return keys_in(service.cns("account", "create").stdout)


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"n-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def queue(sqs: Any, new_name: Callable[[], str]) -> str:
    return str(sqs.create_queue(QueueName=new_name())["QueueUrl"])


@pytest.fixture
def fifo(sqs: Any, new_name: Callable[[], str]) -> str:
    created = sqs.create_queue(
        QueueName=f"{new_name()}.fifo", Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    )
    return str(created["QueueUrl"])


@pytest.fixture
def topic(sns: Any, new_name: Callable[[], str]) -> Topic:
    return Topic(sns, str(sns.create_topic(Name=new_name())["TopicArn"]))


@pytest.fixture(scope="session")
def receiver() -> Iterator[str]:
    """The base URL of `cns receiver`."""
    with running_receiver() as url:
        yield url


@pytest.fixture
def other_receiver() -> Iterator[str]:
    """A receiver of its own, idle while the shared one is busy."""
    with running_receiver() as url:
        yield url


@pytest.fixture
def endpoint(receiver: str) -> Endpoint:
    """An unused endpoint."""
    return Endpoint(receiver)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last output and metrics of the services to the report of a failed test: it may not fail again."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Service):
                report.sections.append((f"{name} said", value.said()[-SAID_CHARS:]))
                report.sections.append((f"{name} counts", _counts(value)))
    return report


def _counts(service: Service) -> str:
    try:
        return service.get("/metrics")[1].decode()
    except OSError as error:
        return f"no answer: {error}"


@contextmanager
def _serving(directory: Path, *options: str) -> Iterator[Service]:
    """A service in the form that the environment names, with a store of its own."""
    with serving(directory, *options) if CLUSTER else running(directory / "data", *options) as started:
        yield started
