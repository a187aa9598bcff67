"""docker-compose.yml, brought up and driven as an operator would. Run by `make test-containers` and by nothing else: it
takes podman, podman-compose and minutes, which `make test` and CI do not have. The images are those of `deploy/images`;
the official ones are not run.

The tests share one cluster, in the order of the file: the later ones hurt it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cns_pytest.http import fetch
from lab.harness.endpoints import Endpoint, running_receiver
from lab.harness.ports import free_port
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one
from tests.compose.composed import ComposedService, first_account, give_key, podman, prepare

pytestmark = pytest.mark.compose


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposedService]:
    cluster = prepare(tmp_path_factory.mktemp("composed"))
    refused = cluster.compose("up", "-d", check=False)
    assert "is the key that seals secrets" in refused.stderr  # without a key nothing starts
    assert cluster.containers() == []
    give_key(cluster)
    try:
        cluster.up()
        first_account(cluster)
        yield cluster
    finally:
        cluster.down("-v")
        podman("network", "rm", f"{cluster.project}_default", check=False)


@pytest.fixture(scope="module")
def sqs(composed: ComposedService) -> Any:
    return composed.client("sqs", tries=5)


@pytest.fixture(scope="module")
def sns(composed: ComposedService) -> Any:
    return composed.client("sns", tries=5)


@pytest.fixture(scope="module")
def queue(sqs: Any) -> str:
    return queue_for(sqs)


@pytest.fixture
def topic(sns: Any) -> Topic:
    return Topic(sns, str(sns.create_topic(Name=f"t-{uuid.uuid4().hex}")["TopicArn"]))


@pytest.fixture
def endpoint(composed: ComposedService) -> Iterator[Endpoint]:
    """A receiver on this machine, which the containers reach at their network's gateway."""
    with running_receiver(host=composed.gateway()) as receiver:
        yield Endpoint(receiver)


def test_all_are_up_and_healthy(composed: ComposedService) -> None:
    assert composed.state("schema")["ExitCode"] == 0
    assert composed.health()["status"] == "green"
    for service in ("cassandra", "redis", "api", "worker"):
        assert composed.is_healthy(service), service
    assert composed.state("beat")["Running"]


def test_messages_and_notifications(
    composed: ComposedService, sqs: Any, queue: str, topic: Topic, endpoint: Endpoint
) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody="hello")["MessageId"]
    message = receive_one(sqs, queue)
    assert (message["MessageId"], message["Body"]) == (sent, "hello")
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    fed = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, fed))
    topic.subscribe("http", endpoint.url)
    topic.publish("to both")
    assert json.loads(receive_one(sqs, fed)["Body"])["Message"] == "to both"
    endpoint.wait(received=1, good=1)


def test_the_aws_cli(composed: ComposedService) -> None:
    queue = composed.aws("sqs", "create-queue", "--queue-name", "from-the-shell")["QueueUrl"]
    composed.aws("sqs", "send-message", "--queue-url", queue, "--message-body", "hello")
    (message,) = composed.aws("sqs", "receive-message", "--queue-url", queue, "--wait-time-seconds", "20")["Messages"]
    assert message["Body"] == "hello"
    composed.aws("sqs", "delete-message", "--queue-url", queue, "--receipt-handle", message["ReceiptHandle"])


def test_a_second_worker_and_the_first_one_killed(composed: ComposedService, sqs: Any, topic: Topic) -> None:
    composed.set("CNS_WORKERS", "2")
    composed.compose(
        "up", "-d", "--no-recreate", "worker", check=False
    )  # the command reports it where a container exists already
    wait_until(lambda: composed.reporting_workers() == 2, composed.said)
    fed = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, fed))
    wanted = {f"number {n}" for n in range(20)}
    for n, message in enumerate(sorted(wanted)):
        topic.publish(message)
        if n == 10:
            podman("kill", composed.container("worker", 2))
    arrived: set[str] = set()

    def all_arrived() -> bool:
        arrived.update(_texts(sqs, fed))
        return wanted <= arrived

    wait_until(all_arrived, lambda: str(wanted - arrived))


def test_redis_restarts_empty(composed: ComposedService, sqs: Any) -> None:
    queue = queue_for(sqs)
    wanted = {f"number {n}" for n in range(20)}
    for message in sorted(wanted):
        sqs.send_message(QueueUrl=queue, MessageBody=message)
    podman("restart", composed.container("redis"))
    assert {message["Body"] for message in receive_all(sqs, queue, len(wanted))} == wanted


def test_cassandra_restarts_at_another_address(composed: ComposedService, sqs: Any) -> None:
    """Podman gives a container a new address at each start."""
    queue = queue_for(sqs)
    sqs.send_message(QueueUrl=queue, MessageBody="kept")
    podman("restart", composed.container("cassandra"))
    wait_until(lambda: composed.is_healthy("cassandra"), composed.said)
    wait_until(lambda: composed.health()["status"] == "green", composed.said)
    assert receive_one(sqs, queue)["Body"] == "kept"


def test_down_and_up_keeps_all(composed: ComposedService, sqs: Any) -> None:
    queue = queue_for(sqs)
    sqs.send_message(QueueUrl=queue, MessageBody="kept")
    composed.down()
    assert composed.containers() == []
    composed.up()
    assert receive_one(sqs, queue)["Body"] == "kept"


def test_the_image_alone(tmp_path: Path) -> None:
    """`cns up` with its own store, under process 1, ended by SIGTERM within its grace."""
    name, port = f"cnstest{uuid.uuid4().hex[:8]}", free_port()
    url = f"http://127.0.0.1:{port}"
    podman("run", "-d", "--name", name, "-p", f"127.0.0.1:{port}:6059", "localhost/cns")
    try:
        wait_until(lambda: _answers(f"{url}/ready"), lambda: podman("logs", name).stdout)
        assert podman("healthcheck", "run", name, check=False).returncode == 0
        assert "export AWS_ACCESS_KEY_ID=" in podman("logs", name).stdout
        podman("stop", "-t", "30", name)
        assert podman("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip() == "0"
    finally:
        podman("rm", "-f", "-v", name)


def _texts(sqs: Any, queue: str) -> set[str]:
    """The published texts of the notifications in the queue."""
    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
    return {json.loads(message["Body"])["Message"] for message in messages}


def _answers(url: str) -> bool:
    try:
        return fetch(url)[0] == 200
    except OSError:
        return False
