"""The fixtures and options of the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cns_pytest.endpoint import Answer, Endpoint
    from cns_pytest.resources import Queue, Topic
    from cns_pytest.service import Service

REGION = "us-east-1"
RECEIVER_BODY_BYTES = 512 * 1024


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cns")
    group.addoption(
        "--cns-url",
        default="",
        help="Test with the service at this URL, such as a container, instead of one that the plugin starts. Its keys "
        "are those of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    )
    parser.addini("cns_settings", "Settings of the service, a line each: CNS_SMS_SANDBOX=on", "linelist", [])
    parser.addini("cns_reset", "Empty the service before each test that uses it", "bool", False)


@pytest.fixture(scope="session")
def cns_service(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service, started once for all tests of the session (each pytest-xdist process has its own)."""
    from cns_pytest.processes import exports, start
    from cns_pytest.service import Service

    given = pytestconfig.getoption("--cns-url")
    if given:
        yield _given_service(given)
        return
    directory = tmp_path_factory.mktemp("cns")
    data = directory / "data"
    settings = dict(_setting(line) for line in pytestconfig.getini("cns_settings"))
    process, url = start(["up", "--data", str(data), "--test-clock"], directory / "service.log", settings, _is_ready)
    keys = exports(process.output())
    try:
        yield Service(
            url=url,
            key_id=keys["AWS_ACCESS_KEY_ID"],
            secret=keys["AWS_SECRET_ACCESS_KEY"],
            region=keys.get("AWS_REGION", REGION),
            data=data,
            process=process,
        )
    finally:
        process.stop()


@pytest.fixture(autouse=True)
def _cns_reset(request: pytest.FixtureRequest) -> None:
    """Set up before the test's own fixtures of its scope."""
    if request.config.getini("cns_reset") and "cns_service" in request.fixturenames:
        request.getfixturevalue("cns_service").reset()


@pytest.fixture
def cns_environment(cns_service: Service, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Sets the variables by which the code under test finds the service without any argument."""
    from cns_pytest.http import LOCAL_HOSTS, is_local
    from cns_pytest.service import HIDING_VARIABLES

    for name in HIDING_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in cns_service.environment.items():
        monkeypatch.setenv(name, value)
    if is_local(cns_service.url):
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, ",".join(LOCAL_HOSTS), prepend=",")
    return cns_service.environment


@pytest.fixture(scope="session")
def cns_sqs(cns_service: Service) -> Any:
    """A client of SQS."""
    return cns_service.client("sqs")


@pytest.fixture(scope="session")
def cns_sns(cns_service: Service) -> Any:
    """A client of SNS."""
    return cns_service.client("sns")


@pytest.fixture
def cns_queue(cns_sqs: Any) -> Iterator[Callable[..., Queue]]:
    """Creates a queue with these attributes and a unique name: `cns_queue(VisibilityTimeout="5")`."""
    from cns_pytest.resources import create_queue, delete_queue

    created: list[Queue] = []

    def create(**attributes: str) -> Queue:
        created.append(create_queue(cns_sqs, attributes))
        return created[-1]

    yield create
    for queue in created:
        delete_queue(queue)


@pytest.fixture
def cns_topic(cns_sns: Any) -> Iterator[Callable[..., Topic]]:
    """Creates a topic with these attributes and a unique name: `cns_topic(FifoTopic="true")`."""
    from cns_pytest.resources import create_topic, delete_topic

    created: list[Topic] = []

    def create(**attributes: str) -> Topic:
        created.append(create_topic(cns_sns, attributes))
        return created[-1]

    yield create
    for topic in created:
        delete_topic(topic)


@pytest.fixture(scope="session")
def cns_receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server for endpoints, started when the first test asks for one."""
    from cns_pytest.http import is_up
    from cns_pytest.processes import start

    log = tmp_path_factory.mktemp("cns") / "receiver.log"
    words = ["receiver", "--body-bytes", str(RECEIVER_BODY_BYTES)]
    process, url = start(words, log, {}, lambda url: is_up(f"{url}/health"))
    try:
        yield url
    finally:
        process.stop()


@pytest.fixture
def cns_endpoint(cns_receiver: str) -> Iterator[Callable[..., Endpoint]]:
    """Makes an HTTP endpoint that answers so: `cns_endpoint(500, 503)` fails twice, then answers 200."""
    from cns_pytest.endpoint import Endpoint
    from cns_pytest.resources import unique_name

    made: list[Endpoint] = []

    def make(*answers: Answer) -> Endpoint:
        endpoint = Endpoint(f"{cns_receiver}/endpoint/{unique_name()}")
        if answers:
            endpoint.answer(*answers)
        made.append(endpoint)
        return endpoint

    yield make
    for endpoint in made:
        endpoint.forget()


def _is_ready(url: str) -> bool:
    from cns_pytest.http import is_up

    return is_up(f"{url}/ready")


def _given_service(url: str) -> Service:
    from botocore.session import get_session

    from cns_pytest.service import Service

    found = get_session().get_credentials()
    if found is None:
        raise pytest.UsageError("--cns-url needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    region = get_session().get_config_variable("region") or REGION
    return Service(url=url.rstrip("/"), key_id=found.access_key, secret=found.secret_key, region=region)


def _setting(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not name.startswith("CNS_"):
        raise pytest.UsageError(f"cns_settings: this is not CNS_NAME=value: {line}")
    return name.strip(), value.strip()
