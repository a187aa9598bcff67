"""RedrivePolicy and RedriveAllowPolicy: refused texts, and which queues may redrive."""

from __future__ import annotations

import json

import pytest

from cns_common.errors import RequestError
from cqs.redrive.policy import may_redrive, read_redrive_allow_policy, read_redrive_policy

ARN = "arn:aws:sqs:us-east-1:000000000000:dlq"
MISSING = "Redrive policy does not contain mandatory attribute: "
COUNT = "valid values are from 1 to 1000 both inclusive."


@pytest.mark.spec("redrive.count-range", "redrive.missing-key")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", MISSING + "maxReceiveCount."),
        ('{"maxReceiveCount":5}', MISSING + "deadLetterTargetArn."),
        *(
            (
                f'{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":{count}}}',
                f"Invalid value for maxReceiveCount: {shown}, {COUNT}",
            )
            for count, shown in [
                ("0", "0"),
                ("1001", "1001"),
                ("-36", "-36"),
                ('"x"', "x"),
                ("1.5", "1.5"),
                ("true", "True"),
                ('""', ""),
            ]
        ),
        (
            '{"deadLetterTargetArn":"arn:aws:sns:us-east-1:000000000000:t","maxReceiveCount":1}',
            "Only SQS queues are valid resources for deadLetterTargetArn",
        ),
        (
            '{"deadLetterTargetArn":"dlq","maxReceiveCount":1}',
            "Invalid value for deadLetterTargetArn.",
        ),
        ('{"deadLetterTargetArn":5,"maxReceiveCount":1}', "Invalid value for deadLetterTargetArn."),
    ],
)
def test_redrive_policy_refused(text: str, reason: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_redrive_policy(text)
    assert (caught.value.code, caught.value.message) == (
        "InvalidParameterValue",
        f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}",
    )


@pytest.mark.spec("redrive.no-map")
@pytest.mark.parametrize("text", [" ", "4", "[]", "x", "[" * 8000, "{" + " " * 9000 + "}", "\ud800"])
def test_redrive_policy_is_no_map(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_redrive_policy(text)
    assert (caught.value.code, caught.value.message) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.",
    )


def test_redrive_allow_policy() -> None:
    by_queue = read_redrive_allow_policy(f'{{"redrivePermission":"byQueue","sourceQueueArns":["{ARN}"]}}')
    assert may_redrive(by_queue, ARN)
    assert not may_redrive(by_queue, ARN + "x")
    assert may_redrive(read_redrive_allow_policy('{"redrivePermission":"allowAll"}'), ARN)
    assert not may_redrive(read_redrive_allow_policy('{"redrivePermission":"denyAll"}'), ARN)


FORMAT = (
    "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the redrive allow policy, "
    "as it\u2019s in an unsupported format."
)


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ({"redrivePermission": "byQueue"}, "you must also specify one or more sourceQueueArns values."),
        (
            {"redrivePermission": "byQueue", "sourceQueueArns": []},
            "you must also specify one or more sourceQueueArns values.",
        ),
        ({"redrivePermission": "allowAll", "sourceQueueArns": [ARN]}, "you must set redrivePermission to byQueue."),
        (
            {"redrivePermission": "byQueue", "sourceQueueArns": [ARN] * 11},
            "The maximum number of source queue ARNs you can specify is 10.",
        ),
        ({}, FORMAT),
        ([], FORMAT),
        ("badjson", FORMAT),
        ({"redrivePermission": "dummy"}, FORMAT),
        ({"redrivePermission": "allowAll", "dummy": "value"}, FORMAT),
        ({"redrivePermission": "byQueue", "sourceQueueArns": "arn"}, FORMAT),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [{}]}, FORMAT),
    ],
)
def test_redrive_allow_policy_refused(policy: object, end: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_redrive_allow_policy(json.dumps(policy))
    assert caught.value.code == "InvalidParameterValue"
    assert caught.value.message.endswith(end)
