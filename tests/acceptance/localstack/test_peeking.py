"""LocalStack's `/_aws/sqs/messages` under `cns up --compat localstack`: looking into queues and taking nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from cns_pytest.http import fetch
from lab.harness.running import Up
from lab.harness.service import error_of
from tests.acceptance.localstack.conftest import ACCOUNT, KEYS
from tests.acceptance.topics import receive_one


def in_all_states(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="in flight")
    receive_one(sqs, url)
    attribute = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}
    sqs.send_message(QueueUrl=url, MessageBody="visible", MessageAttributes={"a": attribute})
    sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=900)


@pytest.mark.spec("localstack.peek", "localstack.peek-protocols", "localstack.peek-refused")
@pytest.mark.parametrize("endpoint", ["/_aws/sqs/messages", "/_aws/sqs/messages/"])
def test_messages_as_an_endpoint_of_boto3(stack: Up, sqs: Any, queue: str, endpoint: str) -> None:
    in_all_states(sqs, queue)
    peeking = stack.client("sqs", **KEYS, url=stack.url + endpoint)
    for _ in range(2):
        (message,) = peeking.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)["Messages"]
        assert (message["Body"], message["ReceiptHandle"]) == ("visible", "SQS/BACKDOOR/ACCESS")
        assert message["Attributes"]["ApproximateReceiveCount"] == "0"
        assert message["MessageAttributes"]["a"]["BinaryValue"] == b"\x00\xff"
    assert receive_one(sqs, queue)["Body"] == "visible", "looking took nothing away"
    assert error_of(peeking.send_message, QueueUrl=queue, MessageBody="x") == ("InvalidRequest", 400)
    assert error_of(peeking.receive_message, QueueUrl=f"{queue}-not") == (
        "AWS.SimpleQueueService.NonExistentQueue",
        400,
    )
    assert error_of(peeking.receive_message, QueueUrl="http://localhost/nonsense") == ("InvalidAddress", 404)


@pytest.mark.spec("localstack.peek-protocols")
def test_messages_by_the_aws_cli(stack: Up, sqs: Any, queue: str) -> None:
    in_all_states(sqs, queue)
    environment = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    cli = replace(stack, url=f"{stack.url}/_aws/sqs/messages", environment=environment)
    (message,) = cli.aws("sqs", "receive-message", "--queue-url", queue)["Messages"]
    assert (message["Body"], message["Attributes"]["ApproximateFirstReceiveTimestamp"]) == ("visible", "0")


@pytest.mark.spec("localstack.peek", "localstack.peek-states", "localstack.peek-protocols")
@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        ({}, {"visible"}),
        ({"ShowInvisible": "true"}, {"visible", "in flight"}),
        ({"ShowDelayed": "1"}, {"visible", "delayed"}),
        (
            {"ShowInvisible": "1", "ShowDelayed": "TRUE", "MaxNumberOfMessages": "1"},
            {"visible", "in flight", "delayed"},
        ),
    ],
)
def test_messages_over_plain_http(
    stack: Up, sqs: Any, queue: str, by_path: bool, method: str, flags: dict[str, str], seen: set[str]
) -> None:
    in_all_states(sqs, queue)
    page = f"{stack.url}/_aws/sqs/messages"
    if by_path:
        page += f"/us-east-1/{ACCOUNT}/{queue.rpartition('/')[2]}"
    pairs = urlencode({"QueueUrl": queue, **flags})
    target, form = (f"{page}?{pairs}", None) if method == "GET" else (page, pairs.encode())
    status, shown = fetch(target, form, {"accept": "application/json"})
    assert status == 200, shown
    messages = json.loads(shown)["ReceiveMessageResponse"]["ReceiveMessageResult"]["messages"]
    assert {message["Body"] for message in messages} == seen
    status, xml = fetch(target, form)
    assert (status, xml.count(b"<Message>")) == (200, len(seen))
    assert (b"<Name>IsVisible</Name>" in xml) == ("ShowInvisible" in flags)
    assert (b"<Name>IsDelayed</Name>" in xml) == ("ShowDelayed" in flags)
    if method == "GET":
        status, aws_json = fetch(target, None, {"content-type": "application/x-amz-json-1.0"})
        assert {message["Body"] for message in json.loads(aws_json)["Messages"]} == seen


@pytest.mark.spec("localstack.peek-refused")
@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, b"AWS.SimpleQueueService.NonExistentQueue"),
        ("?QueueUrl=", 400, b"AWS.SimpleQueueService.NonExistentQueue"),
        ("?QueueUrl=nonsense", 404, b"InvalidAddress"),
        ("?QueueUrl=http://localhost/cns/publish-jobs", 404, b"InvalidAddress"),
        ("/us-east-1/000000000000/absent", 400, b"AWS.SimpleQueueService.NonExistentQueue"),
        ("/internal/cns/publish-jobs", 400, b"AWS.SimpleQueueService.NonExistentQueue"),
        ("?QueueUrl=http://localhost/000000000000/q&Action=DeleteQueue", 400, b"InvalidRequest"),
    ],
)
def test_messages_refused(stack: Up, query: str, status: int, code: bytes) -> None:
    answered, body = stack.get(f"/_aws/sqs/messages{query}")
    assert (answered, b"<Code>" + code + b"</Code>" in body) == (status, True), body
