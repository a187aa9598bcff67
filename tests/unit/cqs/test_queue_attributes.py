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


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(("DelaySeconds", given) for given in ("1" * 5000, "\u0661")),
        *(("KmsMasterKeyId", given) for given in ("\ud800", "\u00fc", "\x00", "k" * 2_049)),
        *(
            ("Policy", given)
            for given in (
                "nonsense",
                "\ud800",
                '{"Statement":[]}',
                "1",
                POLICY.replace("Allow", 'Allow","Sid":"\\ud800'),
                OF_INFINITY,
            )
        ),
    ],
)
def test_refused(name: str, given: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_new({name: given}, fifo=False)
    assert (caught.value.code, caught.value.message) == (
        "InvalidAttributeValue",
        f"Invalid value for the parameter {name}.",
    )


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
