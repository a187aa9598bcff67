"""FIFO queues and topics of a cluster of which one API process runs on a machine with a clock a minute off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from lab.harness.clustered import Clustered, serving
from lab.harness.parts import need
from lab.harness.service import error_of
from lab.harness.waiting import wait_until
from lab.harness.wrong_clock import find_faketime, with_wrong_clock
from tests.acceptance.topics import Topic, arn_of, queue_for

AHEAD_S = (60, -60)
HOLD_S = 30
DELAY_MS = 2_000
STALLED_MS = 30_000
"""A machine stalls for less; a delay that is wrong by the clock is a minute longer."""
PUBLISHED = 60
KILLED_AT = 20
SDK_TRIES = 5

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clustered]:
    need("faketime")
    assert find_faketime(), "libfaketime is not installed"
    with serving(tmp_path_factory.mktemp("clocks"), "--test-clock") as service:
        yield service


@pytest.fixture(scope="module", params=AHEAD_S)
def service(cluster: Clustered, request: pytest.FixtureRequest) -> Clustered:
    """The clock of API process 1 is wrong."""
    process = cluster.cluster.apis[1]
    process.stop()
    process.environment = with_wrong_clock(process.environment, request.param)
    cluster.cluster.start_again(process)
    return cluster


def _fifo_queue(service: Clustered, **attributes: str) -> str:
    created = (
        service.at(0)
        .client("sqs")
        .create_queue(QueueName=f"q{os.urandom(6).hex()}.fifo", Attributes={"FifoQueue": "true", **attributes})
    )
    return str(created["QueueUrl"])


def _at(service: Clustered, index: int, queue: str) -> str:
    """The queue's URL at one of the API processes."""
    return queue.replace(service.url, service.at(index).url)


class TwoDoors:
    """A FIFO queue through the process with the right clock, and sends through the one with the wrong clock."""

    def __init__(self, service: Clustered, queue: str) -> None:
        self._right, self._wrong = (service.at(index).client("sqs", tries=SDK_TRIES) for index in (0, 1))
        self._urls = [_at(service, index, queue) for index in (0, 1)]

    def send(self, body: str, group: str) -> None:
        self._send(self._right, self._urls[0], body, group)

    def send_through_wrong(self, body: str, group: str) -> None:
        self._send(self._wrong, self._urls[1], body, group)

    def _send(self, sqs: Any, url: str, body: str, group: str) -> None:
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=body)

    def receive(self, wait_s: int = 0) -> list[dict[str, Any]]:
        answer = self._right.receive_message(
            QueueUrl=self._urls[0],
            MaxNumberOfMessages=10,
            VisibilityTimeout=HOLD_S,
            WaitTimeSeconds=wait_s,
            AttributeNames=["All"],
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def delete(self, message: dict[str, Any]) -> None:
        self._right.delete_message(QueueUrl=self._urls[0], ReceiptHandle=message["ReceiptHandle"])


def _bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def test_a_process_with_a_wrong_clock_gives_no_messages(service: Clustered) -> None:
    queue = _at(service, 1, _fifo_queue(service))
    assert error_of(service.at(1).client("sqs").receive_message, QueueUrl=queue) == ("ServiceUnavailable", 503)


def test_a_hold_lasts_as_long_as_was_asked_for(service: Clustered) -> None:
    doors = TwoDoors(service, _fifo_queue(service))
    doors.send("held", "g")
    assert _bodies(doors.receive()) == ["held"]
    doors.send_through_wrong("behind-it", "g")
    doors.send_through_wrong("of-another-group", "h")
    assert _bodies(doors.receive()) == ["of-another-group"]
    service.advance(HOLD_S - 20)
    doors.send_through_wrong("also-behind-it", "g")
    assert doors.receive() == []
    service.advance(20)
    (held, *others) = [message for message in doors.receive() if message["Attributes"]["MessageGroupId"] == "g"]
    assert (held["Body"], held["Attributes"]["ApproximateReceiveCount"]) == ("held", "2")
    assert _bodies(others) == ["behind-it", "also-behind-it"]
    for message in (held, *others):
        doors.delete(message)


def test_a_delay_lasts_as_long_as_was_asked_for(service: Clustered) -> None:
    doors = TwoDoors(service, _fifo_queue(service, DelaySeconds=str(DELAY_MS // 1000)))
    doors.send_through_wrong("later", "g")
    (message,) = doors.receive(wait_s=20)
    times = message["Attributes"]
    waited_ms = int(times["ApproximateFirstReceiveTimestamp"]) - int(times["SentTimestamp"])
    assert DELAY_MS <= waited_ms < STALLED_MS
    doors.delete(message)


def test_a_worker_dies_under_publishes_through_both(service: Clustered) -> None:
    attributes = {"FifoTopic": "true"}
    topics = [service.at(index).client("sns", tries=SDK_TRIES) for index in (0, 1)]
    arn = topics[0].create_topic(Name=f"t{os.urandom(6).hex()}.fifo", Attributes=attributes)["TopicArn"]
    sqs = service.at(0).client("sqs", tries=SDK_TRIES)
    queue = _at(service, 0, queue_for(sqs, arn, f"{os.urandom(6).hex()}.fifo", FifoQueue="true"))
    Topic(topics[0], arn).subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    worker = service.cluster.workers[0]
    for number in range(PUBLISHED):
        if number == KILLED_AT:
            worker.kill()
        topics[number % 2].publish(
            TopicArn=arn, Message=str(number), MessageGroupId="g", MessageDeduplicationId=str(number)
        )
    service.advance(HOLD_S + 1)  # the leases of the killed worker end
    came: list[str] = []

    def take() -> bool:
        for message in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", []):
            came.append(message["Body"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return len(came) >= PUBLISHED

    wait_until(take, lambda: f"{len(came)} of {PUBLISHED}: {came}")
    service.cluster.start_again(service.cluster.workers[0])
    assert came == [str(number) for number in range(PUBLISHED)]
