"""The first five minutes with the AWS CLI, word for word as a newcomer types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.acceptance.service import Service


def test_the_first_five_minutes(service: Service, new_name: Callable[[], str]) -> None:
    aws, name = service.aws, new_name()
    account = aws("sts", "get-caller-identity")["Account"]

    queue = aws("sqs", "create-queue", "--queue-name", name)["QueueUrl"]
    assert queue == f"{service.url}/{account}/{name}"
    sent = aws("sqs", "send-message", "--queue-url", queue, "--message-body", "hello")
    (message,) = _receive(service, queue)
    assert (message["Body"], message["MessageId"]) == ("hello", sent["MessageId"])
    aws("sqs", "delete-message", "--queue-url", queue, "--receipt-handle", message["ReceiptHandle"])

    topic = aws("sns", "create-topic", "--name", name)["TopicArn"]
    arn = aws("sqs", "get-queue-attributes", "--queue-url", queue, "--attribute-names", "All")["Attributes"]["QueueArn"]
    allow = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    attributes = {"Policy": json.dumps({"Version": "2012-10-17", "Statement": [allow]})}
    aws("sqs", "set-queue-attributes", "--queue-url", queue, "--attributes", json.dumps(attributes))
    aws("sns", "subscribe", "--topic-arn", topic, "--protocol", "sqs", "--notification-endpoint", arn)
    published = aws("sns", "publish", "--topic-arn", topic, "--subject", "greeting", "--message", "hello, all")
    (message,) = _receive(service, queue)
    envelope = json.loads(message["Body"])
    assert (envelope["MessageId"], envelope["Message"]) == (published["MessageId"], "hello, all")


def _receive(service: Service, queue: str) -> list[dict[str, Any]]:
    answer = service.aws("sqs", "receive-message", "--queue-url", queue, "--wait-time-seconds", "20")
    messages: list[dict[str, Any]] = answer["Messages"]
    return messages
