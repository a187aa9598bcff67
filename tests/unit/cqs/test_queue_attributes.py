"""Queue attributes: accepted and refused values, defaults, and responses."""

from __future__ import annotations

import pytest

from cns_common.errors import RequestError
from cqs.queues.attributes import check_changes, check_new, first_difference, merge_changes, settings_of
from cqs.queues.model import Queue

ARN = "arn:aws:sqs:us-east-1:000000000000:dlq"
POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}'
OF_INFINITY = POLICY.replace('"*"}]', '"*","Condition":{"NumericEquals":{"aws:x":1e999}}}]')
"""AddPermission, which reads the policy again, would find neither this number nor a lone surrogate to be JSON."""


NUMBERS = {
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1_024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, 43_200),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}
KEYS = ("1234abcd-12ab", "arn:aws:kms:us-east-1:000000000000:key/1234abcd", "alias/aws/sqs")
READ_ONLY = (
    "QueueArn",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


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


@pytest.mark.spec(
    *(f"attribute.{name}" for name in NUMBERS),
    "attribute.booleans",
    "attribute.ContentBasedDeduplication",
    "attribute.DeduplicationScope",
    "attribute.SqsManagedSseEnabled",
    "attribute.Policy",
    "attribute.kms-key",
)
@pytest.mark.parametrize(
    ("fifo", "name", "given", "kept"),
    [
        *((False, name, bound, bound) for name, (least, most) in NUMBERS.items() for bound in (str(least), str(most))),
        (False, "DelaySeconds", "007", "7"),
        *((False, "KmsMasterKeyId", key, key) for key in KEYS),
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
        (True, "ContentBasedDeduplication", "false", "false"),
        (True, "DeduplicationScope", "messageGroup", "messageGroup"),
        (True, "DeduplicationScope", "queue", "queue"),
        (True, "FifoThroughputLimit", "perMessageGroupId", "perMessageGroupId"),
    ],
)
def test_normalised(fifo: bool, name: str, given: str, kept: str) -> None:
    assert check_new({name: given}, fifo=fifo) == {name: kept}


@pytest.mark.spec(*(f"attribute.{name}" for name in NUMBERS), "attribute.no-number", "attribute.policy-bad")
@pytest.mark.parametrize(
    ("fifo", "name", "given"),
    [
        *((False, name, str(bound)) for name, (least, most) in NUMBERS.items() for bound in (least - 1, most + 1)),
        *((False, name, given) for name in NUMBERS for given in ("", "x", "1.5", " 60", "6e1", "1" * 5000, "\u0661")),
        *((False, "KmsMasterKeyId", given) for given in ("\ud800", "\u00fc", "\x00", "k" * 2_049)),
        *((False, "Policy", given) for given in ("nonsense", "\ud800", "{", "[]", '{"Statement":[]}', "1")),
        (False, "Policy", POLICY.replace("Allow", "allow")),
        (False, "Policy", POLICY.replace("Allow", 'Allow","Sid":"\\ud800')),
        (False, "Policy", OF_INFINITY),
        (True, "DeduplicationScope", "neither"),
        (True, "FifoThroughputLimit", "neither"),
        (True, "ContentBasedDeduplication", "neither"),
        (True, "SqsManagedSseEnabled", "neither"),
    ],
)
def test_refused(fifo: bool, name: str, given: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_new({name: given}, fifo=fifo)
    assert (caught.value.code, caught.value.message) == (
        "InvalidAttributeValue",
        f"Invalid value for the parameter {name}.",
    )


@pytest.mark.spec("attribute.unknown-set", "attribute.read-only", "attribute.content-of-standard")
@pytest.mark.parametrize("name", [*READ_ONLY, "Nonsense", "All", "ContentBasedDeduplication"])
def test_unknown_of_a_standard_queue(name: str) -> None:
    for check in (check_new, check_changes):
        with pytest.raises(RequestError) as caught:
            check({name: "true"}, fifo=False)
        assert (caught.value.code, caught.value.message) == ("InvalidAttributeName", f"Unknown Attribute {name}.")


@pytest.mark.spec("attribute.scope-of-standard")
def test_scopes_of_a_standard_queue() -> None:
    for name, given in {"DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"}.items():
        with pytest.raises(RequestError, match=f"You can specify the {name} only when FifoQueue is set to true"):
            check_new({name: given}, fifo=False)


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
