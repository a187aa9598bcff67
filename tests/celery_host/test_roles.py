"""Producers, consumers and maintenance in processes of their own, by the option or the setting."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cns_common.errors import EXIT_SETTINGS_WRONG
from lab.harness.endpoints import Endpoint
from lab.harness.own_redis import OwnRedis
from lab.harness.running import Up
from lab.harness.service import total
from lab.harness.usage import sockets
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of
from tests.celery_host.celery_running import Celery, CeleryProcess
from tests.celery_host.load import all_arrived, publish_many

GROUPS = 4
BATCH = 10
NO_CONSUMER = "no worker with the role consumer reports: nothing is delivered"


class FifoFlow:
    """A FIFO topic with one queue: each message passes a producer and a consumer, and their order shows."""

    def __init__(self, service: Up) -> None:
        self._sqs = service.client("sqs")
        self._sns = service.client("sns")
        name = uuid.uuid4().hex[:12]
        attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "true"}
        self._topic = Topic(self._sns, self._sns.create_topic(Name=f"{name}.fifo", Attributes=attributes)["TopicArn"])
        policy = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
        fifo = {"FifoQueue": "true", "Policy": json.dumps({"Version": "2012-10-17", "Statement": [policy]})}
        self._queue = self._sqs.create_queue(QueueName=f"{name}.fifo", Attributes=fifo)["QueueUrl"]
        self._topic.subscribe("sqs", arn_of(self._sqs, self._queue), RawMessageDelivery="true")
        self._published: list[int] = []

    def publish(self, n: int) -> None:
        for _ in range(n // BATCH):
            first = len(self._published)
            numbers = range(first, first + BATCH)
            entries = [
                {"Id": str(number), "Message": str(number), "MessageGroupId": str(number % GROUPS)}
                for number in numbers
            ]
            answer = self._sns.publish_batch(TopicArn=self._topic.arn, PublishBatchRequestEntries=entries)
            assert len(answer["Successful"]) == BATCH
            self._published += numbers

    def waiting(self) -> int:
        """Messages that have arrived in the queue."""
        names = ["ApproximateNumberOfMessages"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=names)["Attributes"]
        return int(attributes[names[0]])

    def assert_all_arrived(self) -> None:
        """Each message came once, those of a group in their order."""
        wait_until(lambda: self.waiting() == len(self._published), lambda: f"{self.waiting()} arrived")
        numbers: list[int] = []
        while received := self._receive():
            numbers += [int(message["Body"]) for message in received]
        assert sorted(numbers) == self._published
        for group in range(GROUPS):
            ours = [number for number in numbers if number % GROUPS == group]
            assert ours == sorted(ours)

    def _receive(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10).get(
            "Messages", []
        )
        for message in messages:
            self._sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"])
        return messages


@pytest.fixture
def producer(celery: Celery) -> Iterator[CeleryProcess]:
    yield celery.worker("producer", "--role", "producer")


def test_one_producer_and_one_consumer_each_started_and_stopped_under_load(
    service: Up, celery: Celery, producer: CeleryProcess
) -> None:
    wait_until(lambda: NO_CONSUMER in service.health()["reasons"], lambda: str(service.health()))
    assert not service.is_ready()
    flow = FifoFlow(service)
    flow.publish(50)
    with_role = replace(celery, environment={**celery.environment, "CNS_WORKER_ROLES": "consumer"})
    assert flow.waiting() == 0
    consumer = with_role.worker("consumer")
    wait_until(service.is_ready, lambda: str(service.health()))
    flow.publish(50)
    assert producer.stop() == 0
    flow.publish(50)
    second = celery.worker("second", "--role", "producer,maintenance")
    flow.publish(50)
    assert consumer.stop() == 0
    flow.publish(50)
    with_role.worker("another")
    flow.assert_all_arrived()
    assert second.events("worker.started")[0]["roles"] == ["producer", "maintenance"]


def test_health_metrics_and_remote_control_say_the_roles(service: Up, celery: Celery, producer: CeleryProcess) -> None:
    consumer = celery.worker("consumer", "--role", "consumer")
    process = {worker.name: f"worker-{worker.pid}" for worker in (producer, consumer)}
    expected = [{"process": process[name], "roles": [name]} for name in ("producer", "consumer")]
    wait_until(lambda: service.health()["workers"] == sorted(expected, key=lambda each: str(each["process"])))
    assert service.health()["reasons"] == [
        "no worker with the role maintenance reports: nothing that expired is removed, no message is moved"
    ]
    for name in process:
        assert service.metric("cns_worker_roles", process=process[name], role=name) == 1
        assert service.metric("cns_worker_roles", process=process[name]) == 1
        pools = service.metric("cns_pool_threads", process=process[name])
        assert bool(pools) is (name == "consumer")
    assert service.cns("pool", "resize", "delivery", "3").stdout == f"{process['consumer']}: delivery has 3 threads\n"
    service.cns("pool", "reset", "delivery")
    producer.wait_connected()
    shown = celery.ask("inspect", "pools")[producer.node]
    assert shown == {"process": producer.pid, "roles": ["producer"], "pools": {}}
    refused = celery.ask("control", "resize_pool", "--destination", producer.node, "delivery", "2")
    assert refused[producer.node] == {"error": "this worker has no pools: it lacks the role consumer"}


@pytest.mark.parametrize(
    ("options", "variables", "reason"),
    [
        (("--role", "boss"), {}, "CNS_WORKER_ROLES=boss: 'boss' is no role"),
        ((), {"CNS_WORKER_ROLES": ","}, "CNS_WORKER_ROLES=,: names no role"),
    ],
)
def test_a_role_that_there_is_not(
    celery: Celery, options: tuple[str, ...], variables: dict[str, str], reason: str
) -> None:
    done = replace(celery, environment={**celery.environment, **variables}).run("worker", *options)
    assert (done.returncode, reason in done.stderr) == (EXIT_SETTINGS_WRONG, True), done.stderr


def test_the_age_of_the_backlog_is_measured(service: Up, celery: Celery, producer: CeleryProcess) -> None:
    """The metric by which workers are scaled."""
    flow = FifoFlow(service)

    def begun(worker: CeleryProcess) -> list[float]:
        """How many jobs had waited for at most a minute, at most five minutes, and in all."""
        samples = service.samples()
        labels = {"queue": "fifo-publish-jobs.fifo", "process": f"worker-{worker.pid}"}
        return [total(samples, "cns_job_wait_seconds_bucket", **labels, le=le) for le in ("60.0", "300.0", "+Inf")]

    flow.publish(10)
    wait_until(lambda: begun(producer)[-1] == 10, lambda: str(begun(producer)))
    assert producer.stop() == 0
    flow.publish(10)
    service.advance(100)
    late = celery.worker("late", "--role", "producer")
    wait_until(lambda: begun(late) == [0, 10, 10], lambda: str(begun(late)))
    assert service.metric("cns_api_call_seconds_count", service="sns") > 0


def test_workers_listen_nowhere_and_speak_to_broker_and_endpoints_only(
    broker: OwnRedis, celery: Celery, producer: CeleryProcess, topic: Topic, endpoint: Endpoint
) -> None:
    """Roles meet in queues and stores only, here behind the Unix socket of the store host."""
    workers = [producer, *(celery.worker(role, "--role", role) for role in ("consumer", "maintenance"))]
    topic.subscribe("http", endpoint.url)
    all_arrived(endpoint, publish_many(topic, 20))
    for worker in workers:
        worker.wait_connected()
    ports = {worker.name: sockets(worker.pid) for worker in workers}
    assert [found.listening for found in ports.values()] == [set()] * len(workers)
    receiver = int(endpoint.receiver.rpartition(":")[2])
    assert {name: found.connected for name, found in ports.items()} == {
        "producer": {broker.port},
        "consumer": {broker.port, receiver},
        "maintenance": {broker.port},
    }
