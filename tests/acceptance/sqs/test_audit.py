"""Queues with `Audit=on`, by boto3: the events on disk once a call is answered, and those that workers add."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.audits import audit_lines, data_folders


class AuditedQueue:
    """A queue, and its events as (event, message id or cause)."""

    def __init__(self, service: Service, name: str, **attributes: str) -> None:
        self._folders = data_folders(service)
        self._sqs = service.client("sqs")
        created = self._sqs.create_queue(QueueName=name, Attributes={"Audit": "on", **attributes})
        self.url = created["QueueUrl"]
        read = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        self.arn = read["Attributes"]["QueueArn"]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [
            line
            for line in audit_lines(self._folders)
            if line["queue"] == self.arn and line["event"] == f"message.{kind}"
        ]

    def ids(self, kind: str) -> set[str]:
        return {event["message_id"] for event in self.events(kind)}

    def ended(self) -> set[tuple[str, str]]:
        return {(event["message_id"], event["cause"]) for event in self.events("ended")}

    def send(self, body: str, **members: Any) -> str:
        return str(self._sqs.send_message(QueueUrl=self.url, MessageBody=body, **members)["MessageId"])

    def receive(self, **members: Any) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self._sqs.receive_message(QueueUrl=self.url, **members).get("Messages", [])
        return messages


@pytest.mark.slice
@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_an_answered_call_has_its_event(service: Service, new_name: Callable[[], str], suffix: str) -> None:
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if suffix else {}
    queue = AuditedQueue(service, new_name() + suffix, **fifo)
    group = {"MessageGroupId": "g"} if suffix else {}
    sent = {queue.send(body, **group): body for body in ("one", "tw\u00f6", "three")}
    assert {event["message_id"]: event["checksum"] for event in queue.events("sent")} == {
        message_id: f"{zlib.crc32(body.encode()):08x}" for message_id, body in sent.items()
    }
    received: dict[str, dict[str, Any]] = {}
    while len(received) < 3:
        received |= {one["MessageId"]: one for one in queue.receive(MaxNumberOfMessages=10, WaitTimeSeconds=5)}
    assert queue.ids("received") == sent.keys()
    sqs = service.client("sqs")
    for message in received.values():
        sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])
    assert queue.ids("deleted") == sent.keys()
    assert queue.ended() == set()


def test_workers_say_why_messages_are_gone(service: Service, new_name: Callable[[], str]) -> None:
    dead = AuditedQueue(service, new_name())
    redrive = json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 1})
    queue = AuditedQueue(service, new_name(), RedrivePolicy=redrive, MessageRetentionPeriod="60")
    message_id = queue.send("poison")
    assert queue.receive(VisibilityTimeout=0, WaitTimeSeconds=5)
    wait_until(lambda: not queue.receive(VisibilityTimeout=0) and dead.ids("sent"))
    assert (queue.ended(), dead.ids("sent")) == ({(message_id, "dead_lettered")}, {message_id})
    service.client("sqs").start_message_move_task(SourceArn=dead.arn)
    wait_until(lambda: len(queue.ids("sent")) == 2)
    assert dead.ended() == {(message_id, "moved")}
    (back,) = queue.ids("sent") - {message_id}
    service.advance(61)
    wait_until(lambda: (back, "expired") in queue.ended())
