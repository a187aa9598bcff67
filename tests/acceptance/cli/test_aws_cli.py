"""SNS by the AWS CLI: filters, FIFO topics, batches, platform applications."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.harness.service import Service
from tests.acceptance.topics import arn_of, queue_for

pytestmark = pytest.mark.extended


def test_filters(service: Service, sqs: Any, new_name: Callable[[], str]) -> None:
    aws, name = service.aws, new_name()
    shown = ("--attributes", "DisplayName=Shop news,SignatureVersion=2", "--tags", "Key=team,Value=blue")
    topic = aws("sns", "create-topic", "--name", name, *shown)["TopicArn"]
    queue = queue_for(sqs, topic, name)
    policy = {"price": [{"numeric": ["<", 100]}], "colour": ["red", {"prefix": "dark-"}]}
    attributes = json.dumps({"RawMessageDelivery": "true", "FilterPolicy": json.dumps(policy)})
    to = ("--topic-arn", topic, "--protocol", "sqs", "--notification-endpoint", arn_of(sqs, queue))
    subscription = aws("sns", "subscribe", *to, "--attributes", attributes)["SubscriptionArn"]
    for message, price in (("dear", "100"), ("cheap", "99.9")):
        carried = f"price={{DataType=Number,StringValue={price}}},colour={{DataType=String,StringValue=dark-blue}}"
        aws("sns", "publish", "--topic-arn", topic, "--message", message, "--message-attributes", carried)
    assert [message["Body"] for message in _receive(service, queue)] == ["cheap"]
    of = ("--subscription-arn", subscription)
    for attribute, value in (("FilterPolicyScope", "MessageBody"), ("FilterPolicy", '{"a": {"b": ["c"]}}')):
        change = ("--attribute-name", attribute, "--attribute-value", value)
        aws("sns", "set-subscription-attributes", *of, *change)
    found = aws("sns", "get-subscription-attributes", *of)["Attributes"]
    assert (found["FilterPolicy"], found["FilterPolicyScope"]) == ('{"a":{"b":["c"]}}', "MessageBody")
    aws("sns", "unsubscribe", *of)
    aws("sns", "delete-topic", "--topic-arn", topic)
    with pytest.raises(AssertionError, match=r"\(NotFound\) when calling .*: Topic does not exist"):
        aws("sns", "get-topic-attributes", "--topic-arn", topic)
    sqs.delete_queue(QueueUrl=queue)


def test_fifo_and_batches(service: Service, sqs: Any, new_name: Callable[[], str], tmp_path: Path) -> None:
    aws, name = service.aws, f"{new_name()}.fifo"
    kind = ("--attributes", "FifoTopic=true,ContentBasedDeduplication=true")
    topic = aws("sns", "create-topic", "--name", name, *kind)["TopicArn"]
    queue = queue_for(sqs, topic, new_name())
    to = ("--topic-arn", topic, "--protocol", "sqs", "--notification-endpoint", arn_of(sqs, queue))
    aws("sns", "subscribe", *to, "--attributes", "RawMessageDelivery=true")
    publish = ("sns", "publish", "--topic-arn", topic, "--message", "one", "--message-group-id", "g")
    assert aws(*publish) == aws(*publish)  # MessageId and SequenceNumber, both times
    entries = [{"Id": f"n{n}", "Message": f"{n}", "MessageGroupId": "g"} for n in range(3)]
    batch = tmp_path / "batch.json"
    batch.write_text(json.dumps({"TopicArn": topic, "PublishBatchRequestEntries": entries}))
    published = aws("sns", "publish-batch", "--cli-input-json", f"file://{batch}")
    assert [entry["Id"] for entry in published["Successful"]] == ["n0", "n1", "n2"]
    assert sorted(message["Body"] for message in _receive(service, queue, 4)) == ["0", "1", "2", "one"]
    aws("sns", "delete-topic", "--topic-arn", topic)
    sqs.delete_queue(QueueUrl=queue)


def test_platform_applications(service: Service, new_name: Callable[[], str]) -> None:
    aws, name = service.aws, new_name()
    secrets = ("--attributes", "PlatformCredential=key,PlatformPrincipal=certificate")
    made = aws("sns", "create-platform-application", "--name", name, "--platform", "APNS", *secrets)
    of = ("--platform-application-arn", made["PlatformApplicationArn"])
    device = aws("sns", "create-platform-endpoint", *of, "--token", "ABCD", "--custom-user-data", "Ann's phone")
    (listed,) = aws("sns", "list-endpoints-by-platform-application", *of)["Endpoints"]
    assert listed["EndpointArn"] == device["EndpointArn"]
    assert listed["Attributes"] == {"CustomUserData": "Ann's phone", "Enabled": "true", "Token": "abcd"}
    message = ("--message-structure", "json", "--message", '{"default": "d", "APNS": "{\\"aps\\": {}}"}')
    assert aws("sns", "publish", "--target-arn", device["EndpointArn"], *message)["MessageId"]
    aws("sns", "delete-platform-application", *of)


def _receive(service: Service, queue: str, count: int = 1) -> list[dict[str, Any]]:
    """So many messages, in as many calls as it takes."""
    messages: list[dict[str, Any]] = []
    while len(messages) < count:
        wait = ("--wait-time-seconds", "20", "--max-number-of-messages", "10")
        answer = service.aws("sqs", "receive-message", "--queue-url", queue, *wait)
        messages += answer["Messages"]
    return messages
