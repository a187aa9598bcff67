"""Delivery status logs, as the owner of a topic with feedback roles reads them: a record for each attempt, in AWS's
form."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_one

ROLE = "arn:aws:iam::123456789012:role/logs"

Record = dict[str, Any]


def records(service: Service, name: str, *options: str) -> list[Record]:
    """In the order of their hand-over to the endpoint."""
    found = [json.loads(line) for line in service.delivery_logs(name, *options).splitlines()]
    return sorted(found, key=lambda record: (record["notification"]["timestamp"], record["delivery"]["dwellTimeMs"]))


def wait_records(service: Service, name: str, n: int, *options: str) -> list[Record]:
    found: list[Record] = []

    def look() -> bool:
        found[:] = records(service, name, *options)
        return len(found) >= n

    wait_until(look, lambda: f"{name}: {found}")
    assert len(found) == n, found
    return found


def log_all(topic: Topic, prefix: str, *outcomes: str) -> None:
    for outcome in outcomes or ("Success", "Failure"):
        topic.set(f"{prefix}{outcome}FeedbackRoleArn", ROLE)


@pytest.mark.spec("sns-log.groups", "sns-log.record", "sns-log.confirmations")
def test_a_web_endpoint_that_takes_what_it_gets(service: Service, topic: Topic, endpoint: Endpoint) -> None:
    log_all(topic, "HTTP", "Success")
    topic.subscribe("http", endpoint.url)
    message_id = topic.publish("hello")
    confirmation, notification = wait_records(service, topic.arn, 2)
    assert notification["notification"] == {
        "messageMD5Sum": hashlib.md5(b"hello").hexdigest(),
        "messageId": message_id,
        "topicArn": topic.arn,
        "timestamp": notification["notification"]["timestamp"],
    }
    delivery = notification["delivery"]
    assert set(delivery) == {"deliveryId", "destination", "providerResponse", "dwellTimeMs", "statusCode"}
    assert (delivery["destination"], delivery["statusCode"], delivery["providerResponse"]) == (endpoint.url, 200, "OK")
    assert 0 <= delivery["dwellTimeMs"] < 10_000
    assert "messageMD5Sum" not in confirmation["notification"]
    assert {record["status"] for record in (confirmation, notification)} == {"SUCCESS"}
    assert records(service, topic.arn, "--failures") == []


@pytest.mark.spec("sns-log.failures", "sns-log.groups")
def test_each_attempt_that_failed(service: Service, topic: Topic, endpoint: Endpoint) -> None:
    retries = {"numRetries": 2, "numNoDelayRetries": 2, "minDelayTarget": 1, "maxDelayTarget": 1}
    policy = json.dumps({"healthyRetryPolicy": retries})
    log_all(topic, "HTTP")
    endpoint.behave(status=500, times=2)
    topic.subscribe("http", endpoint.url, DeliveryPolicy=policy)
    topic.publish("hello")
    first, second = wait_records(service, topic.arn, 2, "--failures")
    assert [record["delivery"].get("attempts") for record in (first, second)] == [None, 2]
    assert {record["delivery"]["statusCode"] for record in (first, second)} == {500}
    assert {record["status"] for record in (first, second)} == {"FAILURE"}
    assert first["delivery"]["deliveryId"] != second["delivery"]["deliveryId"]
    third = wait_records(service, topic.arn, 4)[-1]  # the records of the confirmation and of three attempts
    assert (third["status"], third["delivery"]["attempts"]) == ("SUCCESS", 3)


@pytest.mark.spec("sns-log.provider-response")
@pytest.mark.parametrize("name", ["t", "t.fifo"])
def test_a_queue(service: Service, sns: Any, sqs: Any, name: str) -> None:
    fifo = {"FifoTopic": "true", "ContentBasedDeduplication": "true"} if name.endswith(".fifo") else {}
    roles = {"SQSSuccessFeedbackRoleArn": ROLE, "SQSSuccessFeedbackSampleRate": "100"}
    created = sns.create_topic(Name=f"{uuid.uuid4().hex[:8]}-{name}", Attributes={**fifo, **roles})
    topic = Topic(sns, created["TopicArn"])
    queue = queue_for(sqs, topic.arn)
    policy = topic.dead_letters_to(arn_of(sqs, queue_for(sqs, topic.arn)))
    topic.subscribe("sqs", arn_of(sqs, queue), **policy)
    topic.publish("hello", **({"MessageGroupId": "g"} if fifo else {}))
    received = receive_one(sqs, queue)
    (record,) = wait_records(service, topic.arn, 1)
    delivery = record["delivery"]
    assert (delivery["destination"], delivery["statusCode"]) == (arn_of(sqs, queue), 200)
    response = json.loads(delivery["providerResponse"])
    assert list(response) == ["sqsRequestId", "sqsMessageId"]
    assert response["sqsMessageId"] == received["MessageId"]
    assert json.loads(delivery["redrivePolicy"]) == json.loads(policy["RedrivePolicy"])


@pytest.mark.spec("sns-log.provider-response")
def test_a_queue_that_may_not_be_sent_to(service: Service, sqs: Any, topic: Topic) -> None:
    log_all(topic, "SQS", "Failure")
    closed, missing = queue_for(sqs, f"{topic.arn}-other"), queue_for(sqs, topic.arn)
    arns = {arn_of(sqs, closed): 403, arn_of(sqs, missing): 400}
    for arn in arns:
        topic.subscribe("sqs", arn)
    sqs.delete_queue(QueueUrl=missing)
    topic.publish("hello")
    records = wait_records(service, topic.arn, 2, "--failures")
    assert {record["delivery"]["destination"]: record["delivery"]["statusCode"] for record in records} == arns
    said = {record["delivery"]["statusCode"]: json.loads(record["delivery"]["providerResponse"]) for record in records}
    denied = f"queue policy does not allow topic {topic.arn}"
    assert said[403] == {"ErrorCode": "AccessDenied", "ErrorMessage": denied, "sqsRequestId": "Unrecoverable"}
    assert said[400]["ErrorCode"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert said[400]["ErrorMessage"] == "The specified queue does not exist."


def test_times_from_publish_to_delivery_are_measured(service: Service, sqs: Any, topic: Topic) -> None:
    def count() -> float:
        return service.metric("cns_delivery_seconds_count", protocol="sqs", attempt="first")

    before = count()
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue))
    topic.publish("hello")
    wait_until(lambda: count() >= before + 1)
    at_most_an_hour = service.metric("cns_delivery_seconds_bucket", protocol="sqs", attempt="first", le="3600.0")
    assert 0 < at_most_an_hour <= count()


@pytest.mark.parametrize("words", [["nonsense"], ["sns/a/b/c", "--since", "yesterday"]])
def test_what_cannot_be_shown(service: Service, words: list[str]) -> None:
    done = service.cns("logs", *words, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert words[-1] in done.stderr
