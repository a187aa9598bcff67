"""Topic names and attributes: accepted values and their stored form, and refusals with their texts."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from cns.subscriptions.subscription import SubscriptionCounts
from cns.topics.attributes import check_change, check_name, check_new, describe, differs, merge, message_bytes_max
from cns.topics.topic import Topic
from cns_common.errors import RequestError

TOPIC = Topic(id="1", account="111111111111", region="eu-west-1", name="t", created_ms=0)
ROLE = "arn:aws:iam::111111111111:role/logs"


def complaint_of(refused: pytest.ExceptionInfo[RequestError]) -> str:
    assert refused.value.code == "InvalidParameter"
    return refused.value.message.removeprefix("Invalid parameter: ")


STANDARD = Topic(id="1", account="1" * 12, region="r", name="t", created_ms=0)
FIFO = replace(STANDARD, name="t.fifo")


@pytest.mark.parametrize("name", ["a", "A-z_0", "a" * 256])
def test_names_taken(name: str) -> None:
    check_name(name, {})
    check_name(name, {"FifoTopic": "false"})


@pytest.mark.parametrize("name", ["", "a" * 257, "a b", "a:b", "a.fifo", "a.b", "ä", "a\n"])
def test_names_refused(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_name(name, {})
    assert complaint_of(refused) == "Topic Name"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("a", "Topic Name"),
        (".fifo", "Topic Name"),
        ("a" * 252 + ".fifo", "Topic Name"),
        ("a.fifo.fifo", "Topic Name"),
    ],
)
def test_names_that_no_fifo_topic_has(name: str, complaint: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_name(name, {"FifoTopic": "TRUE"})
    assert complaint_of(refused) == complaint


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


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("Fake", "x", "AttributeName"),
        ("Owner", "111111111111", "AttributeName"),
        ("TopicArn", "x", "AttributeName"),
        ("EffectiveDeliveryPolicy", "{}", "AttributeName"),
        ("SubscriptionsConfirmed", "1", "AttributeName"),
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
    with pytest.raises(RequestError) as at_set:
        check_change(STANDARD, name, text)
    assert complaint_of(at_set) == complaint
    with pytest.raises(RequestError) as at_creation:
        check_new("t", {name: text})
    expected = f"Unknown attribute {name}" if complaint == "AttributeName" else complaint
    assert complaint_of(at_creation) == f"Attributes Reason: {expected}"


@pytest.mark.parametrize("name", ["FifoTopic", "ContentBasedDeduplication", "FifoThroughputScope"])
def test_a_new_standard_topic_does_not_know_the_attributes_of_fifo_topics(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_new("t", {name: "x"})
    assert complaint_of(refused) == f"Attributes Reason: Unknown attribute {name}"


def test_fifo_false_is_dropped_at_creation_and_cannot_be_set() -> None:
    assert check_new("t", {"FifoTopic": "false"}) == {"FifoTopic": ""}
    for text in ("false", "true"):
        with pytest.raises(RequestError) as refused:
            check_change(STANDARD, "FifoTopic", text)
        assert complaint_of(refused) == "AttributeName"


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
    with pytest.raises(RequestError) as refused:
        check_change(FIFO, name, text)
    assert complaint_of(refused) == complaint


def test_a_throughput_scope_is_not_taken_back() -> None:
    by_group = replace(FIFO, attributes={"FifoThroughputScope": "MessageGroup"})
    assert check_change(by_group, "FifoThroughputScope", "MessageGroup")
    with pytest.raises(RequestError) as refused:
        check_change(by_group, "FifoThroughputScope", "Topic")
    assert complaint_of(refused) == "Modifying FifoThroughputScope from MessageGroup to Topic is not supported"


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


def test_what_a_new_topic_shows() -> None:
    described = describe(TOPIC, SubscriptionCounts(pending=1, confirmed=2, removed=3))
    assert list(described) == [
        "Policy",
        "Owner",
        "SubscriptionsPending",
        "TopicArn",
        "EffectiveDeliveryPolicy",
        "SubscriptionsConfirmed",
        "DisplayName",
        "SubscriptionsDeleted",
    ]
    assert described["Owner"] == "111111111111"
    assert described["TopicArn"] == "arn:aws:sns:eu-west-1:111111111111:t"
    assert [described[f"Subscriptions{state}"] for state in ("Pending", "Confirmed", "Deleted")] == ["1", "2", "3"]
    assert described["DisplayName"] == ""


def test_what_a_topic_shows_of_what_was_set() -> None:
    given = {
        "DeliveryPolicy": "{}",
        "DisplayName": "d",
        "TracingConfig": "Active",
        "KmsMasterKeyId": "k",
        "SignatureVersion": "2",
        "HTTPSuccessFeedbackSampleRate": "5",
    }
    topic = Topic(
        id="1", account="1" * 12, region="r", name="t", created_ms=0, attributes=merge({}, check_new("t", given))
    )
    described = describe(topic, SubscriptionCounts())
    assert list(described) == [
        "Policy",
        "SignatureVersion",
        "Owner",
        "SubscriptionsPending",
        "KmsMasterKeyId",
        "TopicArn",
        "TracingConfig",
        "EffectiveDeliveryPolicy",
        "SubscriptionsConfirmed",
        "DisplayName",
        "DeliveryPolicy",
        "SubscriptionsDeleted",
        "HTTPSuccessFeedbackSampleRate",
    ]
    assert given.items() <= described.items()


def test_empty_values_remove() -> None:
    assert merge({"KmsMasterKeyId": "k", "DisplayName": "d"}, {"KmsMasterKeyId": ""}) == {"DisplayName": "d"}


@pytest.mark.parametrize(("attributes", "most"), [({}, 262_144), ({"MaximumMessageSize": "2000"}, 2_000)])
def test_message_size(attributes: dict[str, str], most: int) -> None:
    topic = Topic(id="1", account="1" * 12, region="r", name="t", created_ms=0, attributes=attributes)
    assert message_bytes_max(topic) == most
