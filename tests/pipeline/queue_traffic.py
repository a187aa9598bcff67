"""Queues of a test's traffic: those that topics send to, and some whose messages are dead letters and are moved."""

from __future__ import annotations

import json
from typing import Any

from lab.harness.waiting import wait_until
from tests.acceptance.sns.test_fifo import fifo_queue
from tests.acceptance.topics import arn_of, queue_for
from tests.pipeline.ledger import Ledger


class QueueTraffic:
    def __init__(self, sqs: Any, ledger: Ledger) -> None:
        self._sqs = sqs
        self._ledger = ledger

    def create(self, topic_arn: str, *, fifo: bool = False) -> str:
        """A queue that the topic may send to. Returns its ARN."""
        arn = arn_of(self._sqs, fifo_queue(self._sqs) if fifo else queue_for(self._sqs, topic_arn))
        self._ledger.queue(arn)
        return arn

    def visible(self, arn: str) -> int:
        name = "ApproximateNumberOfMessages"
        url = self._url(arn)
        return int(self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])

    def depth(self, arn: str) -> tuple[int, int, int]:
        """Visible, in flight and delayed messages, as the API says."""
        names = ["ApproximateNumberOfMessages" + kind for kind in ("", "NotVisible", "Delayed")]
        found = self._sqs.get_queue_attributes(QueueUrl=self._url(arn), AttributeNames=names)["Attributes"]
        visible, in_flight, delayed = [int(found[name]) for name in names]
        return visible, in_flight, delayed

    def _url(self, arn: str) -> str:
        return str(self._sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"])

    def take_all(self, arn: str) -> int:
        """Receive and delete all messages of a queue. Returns the bytes of their bodies."""
        url, use, size_bytes = self._url(arn), self._ledger.queue(arn), 0
        while use.deleted < use.sent:
            for message in self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
                self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                use.received += 1
                use.deleted += 1
                size_bytes += len(message["Body"].encode())
        return size_bytes

    def use(self) -> None:
        """Dead letters of a queue, which a task moves on; what is left is in flight or delayed."""
        dead, revived, work = [str(self._sqs.create_queue(QueueName=name)["QueueUrl"]) for name in ("d", "r", "w")]
        dead_arn, revived_arn, work_arn = [arn_of(self._sqs, url) for url in (dead, revived, work)]
        redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
        self._sqs.set_queue_attributes(QueueUrl=work, Attributes={"RedrivePolicy": redrive})
        use = self._ledger.queue(work_arn)
        for number in range(5):
            self._sqs.send_message(QueueUrl=work, MessageBody=str(number), DelaySeconds=900 * (number == 4))
            use.sent += 1
        received = self._sqs.receive_message(QueueUrl=work, MaxNumberOfMessages=3)["Messages"]
        spent, *done = [message["ReceiptHandle"] for message in received]
        for handle in done:
            self._sqs.delete_message(QueueUrl=work, ReceiptHandle=handle)
        self._sqs.change_message_visibility(QueueUrl=work, ReceiptHandle=spent, VisibilityTimeout=0)
        again = self._sqs.receive_message(QueueUrl=work, MaxNumberOfMessages=10, VisibilityTimeout=43_200)["Messages"]
        use.received, use.deleted, use.moved_out = len(received) + len(again), len(done), 1
        self._sqs.start_message_move_task(SourceArn=dead_arn, DestinationArn=revived_arn)
        wait_until(lambda: self.visible(revived_arn) == 1)
        moved = self._ledger.queue(dead_arn)
        moved.moved_in = moved.moved_out = self._ledger.queue(revived_arn).moved_in = 1
