"""Queue attributes: accepted and refused values, defaults, and responses."""

from __future__ import annotations

import pytest

from cns_common.errors import RequestError
from cqs.engines.contract import Counts
from cqs.queues.attributes import check_changes, check_new, describe, first_difference, merge_changes, settings_of
from cqs.queues.model import Queue

ARN = "arn:aws:sqs:us-east-1:000000000000:dlq"
POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}'
OF_INFINITY = POLICY.replace('"*"}]', '"*","Condition":{"NumericEquals":{"aws:x":1e999}}}]')
"""AddPermission, which reads the policy again, would find neither this number nor a lone surrogate to be JSON."""


def queue(name: str = "q", **attributes: str) -> Queue:
    return Queue(
        id="0" * 32,
        account="000000000000",
        region="us-east-1",
        name=name,
        engine="embedded",
        created_ms=1_700_000_000_999,
        modified_ms=1_700_000_001_000,
        attributes=attributes,
    )


@pytest.mark.parametrize(
    ("fifo", "name", "given", "kept"),
    [
        (False, "DelaySeconds", "900", "900"),
        (False, "DelaySeconds", "007", "7"),
        (False, "MaximumMessageSize", "1048576", "1048576"),
        (False, "MessageRetentionPeriod", "60", "60"),
        (False, "ReceiveMessageWaitTimeSeconds", "20", "20"),
        (False, "VisibilityTimeout", "43200", "43200"),
        (False, "KmsDataKeyReusePeriodSeconds", "86400", "86400"),
        (False, "KmsMasterKeyId", "alias/aws/sqs", "alias/aws/sqs"),
        (False, "SqsManagedSseEnabled", "False", "false"),
        (False, "Policy", POLICY, POLICY),
        (False, "Policy", "", ""),
        (False, "RedrivePolicy", "", ""),
        (
            False,
            "RedrivePolicy",
            f'{{"maxReceiveCount": "5", "extra": 1, "deadLetterTargetArn":"{ARN}"}}',
            f'{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":5}}',
        ),
        (False, "RedriveAllowPolicy", ' {"redrivePermission":"denyAll"}', '{"redrivePermission":"denyAll"}'),
        (True, "FifoQueue", "True", "true"),
        (True, "ContentBasedDeduplication", "TRUE", "true"),
        (True, "DeduplicationScope", "messageGroup", "messageGroup"),
        (True, "FifoThroughputLimit", "perMessageGroupId", "perMessageGroupId"),
    ],
)
def test_normalised(fifo: bool, name: str, given: str, kept: str) -> None:
    assert check_new({name: given}, fifo=fifo) == {name: kept}


VALUE = "InvalidAttributeValue"
NAME = "InvalidAttributeName"


@pytest.mark.parametrize(
    ("fifo", "name", "given", "code", "text"),
    [
        *(
            (False, name, given, VALUE, f"Invalid value for the parameter {name}.")
            for name, givens in {
                "DelaySeconds": ["-1", "901", "", "x", "1.5", " 1", "1" * 5000, "\u0661"],
                "MaximumMessageSize": ["1023", "1048577"],
                "MessageRetentionPeriod": ["59", "1209601"],
                "ReceiveMessageWaitTimeSeconds": ["21", "-1"],
                "VisibilityTimeout": ["43201", ""],
                "KmsDataKeyReusePeriodSeconds": ["59", "86401"],
                "SqsManagedSseEnabled": ["yes", ""],
                "KmsMasterKeyId": ["\ud800", "\u00fc", "\x00", "k" * 2_049],
                "Policy": ["{", "[]", "1", POLICY.replace("Allow", 'Allow","Sid":"\\ud800'), OF_INFINITY],
            }.items()
            for given in givens
        ),
        (True, "DeduplicationScope", "Queue", VALUE, "Invalid value for the parameter DeduplicationScope."),
        (True, "FifoQueue", "maybe", VALUE, "Invalid value for the parameter FifoQueue."),
        (False, "FifoQueue", "true", NAME, "Unknown Attribute FifoQueue."),
        (False, "FifoQueue", "false", NAME, "Unknown Attribute FifoQueue."),
        (False, "ContentBasedDeduplication", "false", NAME, "Unknown Attribute ContentBasedDeduplication."),
        *(
            (False, name, value, NAME, f"You can specify the {name} only when FifoQueue is set to true.")
            for name, value in [("DeduplicationScope", "queue"), ("FifoThroughputLimit", "perQueue")]
        ),
        *(
            (False, name, "1", NAME, f"Unknown Attribute {name}.")
            for name in ["Nonsense", "QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages", "All"]
        ),
    ],
)
def test_refused(fifo: bool, name: str, given: str, code: str, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_new({name: given}, fifo=fifo)
    assert (caught.value.code, caught.value.message) == (code, text)


def test_queue_type_cannot_change() -> None:
    assert check_changes({"FifoQueue": "true"}, fifo=True) == {"FifoQueue": "true"}
    with pytest.raises(RequestError) as caught:
        check_changes({"FifoQueue": "false"}, fifo=True)
    assert caught.value.code == "InvalidAttributeValue"
    assert caught.value.message.endswith("Modifying queue type is not supported.")


def test_engine_cannot_change() -> None:
    with pytest.raises(RequestError, match=r"Unknown Attribute Engine\."):
        check_changes({"Engine": "embedded"}, fifo=False)


@pytest.mark.parametrize(
    ("current", "changes", "after"),
    [
        ({}, {"DelaySeconds": "1"}, {"DelaySeconds": "1"}),
        ({"Policy": POLICY}, {"Policy": ""}, {}),
        ({}, {"KmsMasterKeyId": "k"}, {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "false"}),
        (
            {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "false"},
            {"SqsManagedSseEnabled": "true"},
            {"SqsManagedSseEnabled": "true"},
        ),
        (
            {"DeduplicationScope": "messageGroup"},
            {"FifoThroughputLimit": "perMessageGroupId"},
            {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"},
        ),
    ],
)
def test_merged(current: dict[str, str], changes: dict[str, str], after: dict[str, str]) -> None:
    assert merge_changes(current, changes) == after


def test_high_throughput_needs_its_scope() -> None:
    with pytest.raises(RequestError) as caught:
        merge_changes({}, {"FifoThroughputLimit": "perMessageGroupId"})
    assert (caught.value.code, caught.value.message) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoThroughputLimit. Reason: To set FifoThroughputLimit to "
        "perMessageGroupId, the DeduplicationScope must be messageGroup.",
    )


def test_one_kind_of_encryption() -> None:
    with pytest.raises(RequestError) as caught:
        check_new({"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}, fifo=False)
    assert (caught.value.code, caught.value.message) == (
        "InvalidAttributeName",
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.",
    )


STANDARD_ALL = {
    "ApproximateNumberOfMessages": "3",
    "ApproximateNumberOfMessagesNotVisible": "2",
    "ApproximateNumberOfMessagesDelayed": "1",
    "CreatedTimestamp": "1700000000",
    "DelaySeconds": "0",
    "LastModifiedTimestamp": "1700000001",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "QueueArn": "arn:aws:sqs:us-east-1:000000000000:q",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
FIFO_ALL = {
    **STANDARD_ALL,
    "QueueArn": "arn:aws:sqs:us-east-1:000000000000:q.fifo",
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}


@pytest.mark.parametrize(("name", "expected"), [("q", STANDARD_ALL), ("q.fifo", FIFO_ALL)])
def test_all_of_a_fresh_queue(name: str, expected: dict[str, str]) -> None:
    assert describe(queue(name), ["All"], Counts(3, 2, 1), {}) == expected


def test_described_by_name() -> None:
    assert describe(queue(), [], Counts(), {}) == {}
    assert describe(queue(), ["DelaySeconds", "Policy", "FifoQueue", "Engine"], Counts(), {}) == {
        "DelaySeconds": "0",
        "Engine": "embedded",
    }
    encrypted = queue(KmsMasterKeyId="k", SqsManagedSseEnabled="false")
    assert describe(encrypted, ["KmsDataKeyReusePeriodSeconds"], Counts(), {}) == {
        "KmsDataKeyReusePeriodSeconds": "300"
    }
    with pytest.raises(RequestError) as caught:
        describe(queue(), ["DelaySeconds", "Nonsense"], Counts(), {})
    assert (caught.value.code, caught.value.message) == ("InvalidAttributeName", "Unknown Attribute Nonsense.")


@pytest.mark.parametrize(
    ("held", "wanted", "difference"),
    [
        ({}, {}, None),
        ({}, {"DelaySeconds": "0", "VisibilityTimeout": "30"}, None),
        ({"DelaySeconds": "5"}, {"DelaySeconds": "0"}, "DelaySeconds"),
        ({"DelaySeconds": "5"}, {"VisibilityTimeout": "30"}, None),
        ({}, {"DelaySeconds": "1", "VisibilityTimeout": "31"}, "DelaySeconds"),
        ({}, {"Policy": ""}, None),
        ({"Policy": POLICY}, {"Policy": ""}, "Policy"),
    ],
)
def test_first_difference(held: dict[str, str], wanted: dict[str, str], difference: str | None) -> None:
    assert first_difference(queue(**held), wanted) == difference


def test_settings_of_a_queue_hold_what_was_set() -> None:
    assert settings_of(queue(DelaySeconds="9"))["DelaySeconds"] == "9"
