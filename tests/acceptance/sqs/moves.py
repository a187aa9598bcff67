"""A queue and its dead-letter queue, for tests of message move tasks through boto3."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.harness.waiting import wait_until

_UNDER_WAY = ("RUNNING", "CANCELLING")


@dataclass(frozen=True, kw_only=True)
class Moves:
    sqs: Any
    source: str
    dead: str
    dead_arn: str

    def die(self, n: int) -> None:
        """Send so many messages and receive them until they are dead letters."""
        dead = self.count(self.dead) + n
        for start in range(0, n, 10):
            entries = [{"Id": str(i), "MessageBody": str(i)} for i in range(start, min(n, start + 10))]
            assert "Failed" not in self.sqs.send_message_batch(QueueUrl=self.source, Entries=entries)
        while self.count(self.dead) < dead:
            self.sqs.receive_message(QueueUrl=self.source, MaxNumberOfMessages=10, VisibilityTimeout=0)

    def start(self, **members: Any) -> str:
        return str(self.sqs.start_message_move_task(SourceArn=self.dead_arn, **members)["TaskHandle"])

    def newest(self) -> dict[str, Any]:
        task: dict[str, Any] = self.sqs.list_message_move_tasks(SourceArn=self.dead_arn)["Results"][0]
        return task

    def moved(self) -> int:
        return int(self.newest()["ApproximateNumberOfMessagesMoved"])

    def end(self) -> dict[str, Any]:
        wait_until(lambda: self.newest()["Status"] not in _UNDER_WAY, lambda: str(self.newest()))
        return self.newest()

    def count(self, url: str) -> int:
        name = "ApproximateNumberOfMessages"
        return int(self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])

    def bodies(self, url: str) -> list[str]:
        """Receive all messages. Returns them in the order of their numbers."""
        found: list[str] = []
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            found += [message["Body"] for message in messages]
        return sorted(found, key=int)


def moves(sqs: Any, new_name: Callable[[], str]) -> Moves:
    dead = str(sqs.create_queue(QueueName=new_name())["QueueUrl"])
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    source = sqs.create_queue(QueueName=new_name(), Attributes={"RedrivePolicy": policy})["QueueUrl"]
    return Moves(sqs=sqs, source=source, dead=dead, dead_arn=arn)
