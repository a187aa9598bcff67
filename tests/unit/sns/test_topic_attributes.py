"""Topic names and attributes: accepted values and their stored form, and refusals with their texts."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from cns.topics.attributes import check_change, check_new, differs
from cns.topics.topic import Topic
from tests.unit.sns.refusals import complaint_of

ROLE = "arn:aws:iam::111111111111:role/logs"


STANDARD = Topic(id="1", account="1" * 12, region="r", name="t", created_ms=0)
FIFO = replace(STANDARD, name="t.fifo")


@pytest.mark.spec(
    "sns-topic-attr.display-name",
    "sns-topic-attr.signature-version",
    "sns-topic-attr.tracing",
    "sns-topic-attr.kms-as-given",
    "sns-topic-attr.size-range",
    "sns-topic-attr.feedback-roles",
    "sns-topic-attr.feedback-rate",
)
@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("DisplayName", "Ops – ☎", "Ops – ☎"),
        ("DisplayName", "", ""),
        ("SignatureVersion", "2", "2"),
        ("TracingConfig", "Active", "Active"),
        ("KmsMasterKeyId", "alias/aws/sns", "alias/aws/sns"),
        ("KmsMasterKeyId", "", ""),
        ("MaximumMessageSize", "1024", "1024"),
        ("MaximumMessageSize", "1048576", "1048576"),
        ("MaximumMessageSize", "", ""),
        ("HTTPSuccessFeedbackRoleArn", ROLE, ROLE),
        ("SQSFailureFeedbackRoleArn", "", ""),
        ("LambdaSuccessFeedbackSampleRate", "0", "0"),
        ("ApplicationSuccessFeedbackSampleRate", "100", "100"),
        ("DeliveryPolicy", "", ""),
        ("DeliveryPolicy", "{ }", "{}"),
        ("ArchivePolicy", '{ "MessageRetentionPeriod": 30 }', '{ "MessageRetentionPeriod": 30 }'),
        ("ArchivePolicy", "{}", ""),
    ],
)
def test_attributes_taken(name: str, text: str, stored: str) -> None:
    assert check_change(STANDARD, name, text) == {name: stored}
    assert check_new("t", {name: text}) == {name: stored}


@pytest.mark.spec(
    "sns-topic-attr.display-name",
    "sns-topic-attr.signature-version",
    "sns-topic-attr.tracing",
    "sns-topic-attr.size-range",
    "sns-topic-attr.feedback-roles",
    "sns-topic-attr.feedback-rate",
    "sns-topic-attr.read-only",
    "sns-topic-attr.unknown",
)
@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("Fake", "x", "AttributeName"),
        ("Owner", "111111111111", "AttributeName"),
        ("TopicArn", "x", "AttributeName"),
        ("EffectiveDeliveryPolicy", "{}", "AttributeName"),
        ("SubscriptionsConfirmed", "1", "AttributeName"),
        ("SubscriptionsPending", "1", "AttributeName"),
        ("SubscriptionsDeleted", "1", "AttributeName"),
        ("BeginningArchiveTime", "1", "AttributeName"),
        ("ContentBasedDeduplication", "true", "AttributeName"),
        ("FifoThroughputScope", "Topic", "AttributeName"),
        ("ArchivePolicy", "x", "ArchivePolicy: Unable to parse JSON"),
        ("DisplayName", "a" * 101, "DisplayName"),
        ("DisplayName", "a\r\nBcc: x", "DisplayName"),
        ("SignatureVersion", "3", "SignatureVersion: Invalid value. Must be 1 or 2."),
        ("SignatureVersion", "", "SignatureVersion: Invalid value. Must be 1 or 2."),
        ("TracingConfig", "active", "Invalid tracing config value: active"),
        ("TracingConfig", "", "Invalid tracing config value: "),
        (
            "MaximumMessageSize",
            "1023",
            "MaximumMessageSize: 1023 value provided is not an integer between 1024-1048576",
        ),
        (
            "MaximumMessageSize",
            "1048577",
            "MaximumMessageSize: 1048577 value provided is not an integer between 1024-1048576",
        ),
        (
            "MaximumMessageSize",
            "٣٠٠٠",
            "MaximumMessageSize: ٣٠٠٠ value provided is not an integer between 1024-1048576",
        ),
        ("HTTPFailureFeedbackRoleArn", "role", "HTTPFailureFeedbackRoleArn"),
        ("HTTPFailureFeedbackRoleArn", "arn:aws:iam::111111111111:user/u", "HTTPFailureFeedbackRoleArn"),
        (
            "SQSSuccessFeedbackSampleRate",
            "500",
            "SQSSuccessFeedbackSampleRate: 500 value provided is not an integer between 0-100",
        ),
        (
            "SQSSuccessFeedbackSampleRate",
            "-1",
            "SQSSuccessFeedbackSampleRate: -1 value provided is not an integer between 0-100",
        ),
        ("DeliveryPolicy", "x", "DeliveryPolicy: failed to parse JSON."),
        ("Policy", "{invalid-json", "Policy Error: null"),
    ],
)
def test_attributes_refused(name: str, text: str, complaint: str) -> None:
    assert complaint_of(check_change, STANDARD, name, text) == complaint
    expected = f"Unknown attribute {name}" if complaint == "AttributeName" else complaint
    assert complaint_of(check_new, "t", {name: text}) == f"Attributes Reason: {expected}"


@pytest.mark.parametrize("name", ["FifoTopic", "ContentBasedDeduplication", "FifoThroughputScope"])
def test_a_new_standard_topic_does_not_know_the_attributes_of_fifo_topics(name: str) -> None:
    assert complaint_of(check_new, "t", {name: "x"}) == f"Attributes Reason: Unknown attribute {name}"


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("FifoTopic", "TRUE", "true"),
        ("ContentBasedDeduplication", "True", "true"),
        ("ContentBasedDeduplication", "false", "false"),
        ("FifoThroughputScope", "MessageGroup", "MessageGroup"),
        ("FifoThroughputScope", "Topic", "Topic"),
    ],
)
def test_attributes_of_fifo_topics(name: str, text: str, stored: str) -> None:
    assert check_new("t.fifo", {name: text}) == {name: stored}
    assert check_change(FIFO, name, text) == {name: stored}


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("FifoTopic", "false", "FifoTopic: Modifying topic type is not supported"),
        (
            "ContentBasedDeduplication",
            "yes",
            "ContentBasedDeduplication: Invalid value [yes]. Must be true or false.",
        ),
        ("ContentBasedDeduplication", "", "ContentBasedDeduplication: Invalid value []. Must be true or false."),
        ("FifoThroughputScope", "messagegroup", "Invalid FifoThroughputScope: messagegroup"),
    ],
)
def test_attributes_refused_of_fifo_topics(name: str, text: str, complaint: str) -> None:
    assert complaint_of(check_change, FIFO, name, text) == complaint


def retries(n: int, **members: int) -> str:
    policy = {"minDelayTarget": 1, "maxDelayTarget": 2, "numRetries": n, **members}
    return json.dumps({"http": {"defaultHealthyRetryPolicy": policy}})


@pytest.mark.parametrize(
    ("own", "wanted", "different"),
    [
        ({}, {}, False),
        ({}, {"DisplayName": ""}, False),
        ({}, {"SignatureVersion": "1", "TracingConfig": "PassThrough", "MaximumMessageSize": "262144"}, False),
        ({}, {"SignatureVersion": "2"}, True),
        ({"DisplayName": "a"}, {}, False),
        ({"DisplayName": "a"}, {"DisplayName": "b"}, True),
        ({"KmsMasterKeyId": "k"}, {"KmsMasterKeyId": ""}, True),
        ({"DeliveryPolicy": retries(3)}, {"DeliveryPolicy": retries(4)}, True),
        ({"DeliveryPolicy": retries(3, numNoDelayRetries=0)}, {"DeliveryPolicy": retries(3)}, False),
        ({"DeliveryPolicy": retries(3)}, {"DeliveryPolicy": ""}, True),
        ({}, {"DeliveryPolicy": "{}"}, True),
    ],
)
def test_only_what_is_sent_is_compared(own: dict[str, str], wanted: dict[str, str], different: bool) -> None:
    topic = Topic(id="1", account="1" * 12, region="r", name="t", created_ms=0, attributes=own)
    assert differs(topic, wanted) is different
