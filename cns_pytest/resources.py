"""Queues and topics that tests make: unique names, permissions set, removed when the test ends."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cns_pytest.endpoint import Endpoint

WAIT_S = 30.0
POLL_S_MAX = 20
BATCH_MAX = 10


def unique_name(suffix: str = "") -> str:
    return f"test-{uuid.uuid4().hex[:16]}{suffix}"


@dataclass(frozen=True, slots=True)
class Queue:
    sqs: Any
    url: str
    arn: str

    def send(self, body: str, **members: Any) -> str:
        """The message id."""
        return str(self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **members)["MessageId"])

    def receive(self, count: int = 1, wait_s: int = POLL_S_MAX) -> list[dict[str, Any]]:
        """Receive and delete up to `count` messages, as they were received; fewer if none comes for `wait_s`."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            received = self.sqs.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(count - len(found), BATCH_MAX),
                WaitTimeSeconds=min(wait_s, POLL_S_MAX),
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if not received:
                return found
            for message in received:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
            found += received
        return found

    def bodies(self, count: int = 1, wait_s: int = POLL_S_MAX) -> list[str]:
        return [message["Body"] for message in self.receive(count, wait_s)]


@dataclass(frozen=True, slots=True)
class Topic:
    sns: Any
    arn: str

    def publish(self, message: str, **members: Any) -> str:
        """The message id."""
        return str(self.sns.publish(TopicArn=self.arn, Message=message, **members)["MessageId"])

    def subscribe(self, target: Queue | Endpoint, attributes: Mapping[str, str] | None = None) -> str:
        """Subscribe a queue, which is then allowed to get messages of the topic, or an endpoint, and wait until it is
        confirmed; the subscription's ARN."""
        endpoint = _endpoint(target)
        if isinstance(target, Queue):
            _allow(target, self.arn)
        subscribed = self.sns.subscribe(
            TopicArn=self.arn,
            Protocol=endpoint[0],
            Endpoint=endpoint[1],
            Attributes=dict(attributes or {}),
            ReturnSubscriptionArn=True,
        )
        if isinstance(target, Endpoint):
            target.wait_confirmed()
        return str(subscribed["SubscriptionArn"])


def create_queue(sqs: Any, attributes: Mapping[str, str]) -> Queue:
    name = unique_name(".fifo" if attributes.get("FifoQueue") == "true" else "")
    url = sqs.create_queue(QueueName=name, Attributes=dict(attributes))["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Queue(sqs, url, arn)


def create_topic(sns: Any, attributes: Mapping[str, str]) -> Topic:
    name = unique_name(".fifo" if attributes.get("FifoTopic") == "true" else "")
    return Topic(sns, sns.create_topic(Name=name, Attributes=dict(attributes))["TopicArn"])


def delete_queue(queue: Queue) -> None:
    """Delete it, unless the test has."""
    with suppress(queue.sqs.exceptions.QueueDoesNotExist):
        queue.sqs.delete_queue(QueueUrl=queue.url)


def delete_topic(topic: Topic) -> None:
    """Delete it, unless the test has, with its subscriptions, which AWS would leave for three days."""
    with suppress(topic.sns.exceptions.NotFoundException):
        for page in topic.sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic.arn):
            for subscription in page["Subscriptions"]:
                if subscription["SubscriptionArn"].startswith("arn:"):
                    topic.sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    topic.sns.delete_topic(TopicArn=topic.arn)


def _endpoint(target: Queue | Endpoint) -> tuple[str, str]:
    if isinstance(target, Queue):
        return "sqs", target.arn
    return target.url.partition(":")[0], target.url


def _allow(queue: Queue, topic_arn: str) -> None:
    """Add a statement to the queue's policy, as AWS asks for."""
    asked = queue.sqs.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["Policy"])
    text = asked.get("Attributes", {}).get("Policy")
    policy: dict[str, Any] = json.loads(text) if text else {"Version": "2012-10-17", "Statement": []}
    policy["Statement"].append(
        {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue.arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
        }
    )
    queue.sqs.set_queue_attributes(QueueUrl=queue.url, Attributes={"Policy": json.dumps(policy)})
