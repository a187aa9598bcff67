"""Queue policies: which callers they admit, and what conditions know of a call. tests/unit/aws has the language."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from cns_common.aws.call import ANONYMOUS, Caller, root_caller, user_caller
from cns_common.errors import RequestError
from tests.integration.cqs.door import REGION
from tests.integration.cqs.sqs import ACCOUNT, OTHER_ACCOUNT, Sqs, refused

spec = pytest.mark.spec
ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
ROOT = root_caller(OTHER_ACCOUNT)
USER = user_caller(OTHER_ACCOUNT, "bob", "AIDABOB")
SESSION = Caller(account=OTHER_ACCOUNT, arn=f"arn:aws:sts::{OTHER_ACCOUNT}:assumed-role/r/s", user_id="AROA:s")
TOPIC = Caller(account="", arn="", user_id="AROA:AWS-CLOUDCAST", service="sns.amazonaws.com")
TOPIC_ARN = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
FROM_TOPIC = {"aws:SourceArn": TOPIC_ARN, "aws:SourceAccount": ACCOUNT}
CALLERS = {"root": ROOT, "user": USER, "session": SESSION, "topic": TOPIC, "unsigned": ANONYMOUS}
ALL = set(CALLERS)
OF_ACCOUNT = {"root", "user", "session"}

Element = Any  # a policy is JSON


def statement(**changed: Element) -> dict[str, Element]:
    """A policy that allows everyone everything, with elements `changed`; None removes an element."""
    whole = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": ARN, **changed}
    return {name: element for name, element in whole.items() if element is not None}


def document(*statements: dict[str, Element], **changed: Element) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements, **changed})


def when(operator: str, key: str, value: Element) -> dict[str, Element]:
    return statement(Condition={operator: {key: value}})


async def let_in(sqs: Sqs, url: str) -> set[str]:
    """A statement that allows these callers to send."""
    inside = set()
    for name, caller in CALLERS.items():
        try:
            await sqs.send(url, caller=caller, facts=FROM_TOPIC if caller is TOPIC else {})
        except RequestError as error:
            assert error.code == "AccessDenied", error
        else:
            inside.add(name)
    return inside


# -- whom a statement concerns ----------------------------------------------------------------------------------------

DENY = {"Effect": "Deny", "Principal": None}
CASES: list[tuple[str, str, set[str]]] = [
    ("policy.everyone", document(statement()), ALL),
    ("policy.account", document(statement(Principal={"AWS": OTHER_ACCOUNT})), OF_ACCOUNT),
    ("policy.identity", document(statement(Principal={"AWS": USER.arn})), {"user"}),
    ("policy.identity", document(statement(Principal={"AWS": SESSION.arn})), {"session"}),
    ("policy.service", document(statement(Principal={"Service": "sns.amazonaws.com"})), {"topic"}),
    (
        "policy.not-principal-session",
        document(statement(), statement(**DENY, NotPrincipal={"AWS": SESSION.arn})),
        set(),
    ),
    (
        "policy.not-principal-session",
        document(statement(), statement(**DENY, NotPrincipal={"AWS": [ROOT.arn, SESSION.arn]})),
        {"root", "session"},
    ),
    ("policy.version", json.dumps({"Statement": [statement(Sid="any")]}), ALL),
    ("policy.statements", json.dumps({"Statement": statement()}), ALL),
    ("policy.no-resource", document(statement(Resource=None)), ALL),
    ("policy.no-resource", document(statement(), statement(Effect="Deny", Resource=None)), set()),
    ("policy.no-resource", document(statement(Resource=None, Principal={"AWS": USER.arn})), {"user"}),
    ("policy.resource", document(statement(Resource=f"{ARN}x")), set()),
    ("policy.key-source", document(when("ArnEquals", "aws:SourceArn", TOPIC_ARN)), {"topic"}),
    ("policy.key-source", document(when("ArnEquals", "aws:SourceArn", f"{TOPIC_ARN}2")), set()),
    ("policy.key-source", document(when("StringEquals", "aws:SourceAccount", ACCOUNT)), {"topic"}),
    ("policy.key-principal", document(when("ArnEquals", "aws:PrincipalArn", USER.arn)), {"user"}),
    ("policy.key-principal", document(when("StringEquals", "aws:PrincipalAccount", OTHER_ACCOUNT)), OF_ACCOUNT),
    ("policy.key-principal", document(when("StringEquals", "aws:PrincipalType", "Account")), {"root"}),
    ("policy.key-principal", document(when("StringEquals", "aws:userid", USER.user_id)), {"user"}),
    ("policy.key-username", document(when("Null", "aws:username", "true")), ALL - {"user"}),
    ("policy.key-username", document(when("StringEquals", "aws:username", "bob")), {"user"}),
    ("policy.key-service", document(when("StringEquals", "aws:PrincipalServiceName", TOPIC.service)), {"topic"}),
    ("policy.key-service", document(when("Bool", "aws:PrincipalIsAWSService", "true")), {"topic"}),
    ("policy.key-request", document(when("Bool", "aws:SecureTransport", "false")), ALL - {"topic"}),
    ("policy.key-request", document(when("DateGreaterThan", "aws:CurrentTime", "2020-01-01T00:00:00Z")), ALL),
    ("policy.key-request", document(when("NumericGreaterThan", "aws:EpochTime", "1577836800")), ALL),
    ("policy.key-request", document(when("StringEquals", "aws:RequestedRegion", REGION)), ALL),
    ("policy.key-source-ip", document(when("IpAddress", "aws:SourceIp", "192.0.2.0/24")), ALL - {"topic"}),
    ("policy.key-source-ip", document(when("Null", "aws:SourceIp", "true")), {"topic"}),
    ("policy.key-resource-tag", document(when("StringEquals", "aws:ResourceTag/stage", "test")), ALL),
    ("policy.key-resource-tag", document(when("StringEquals", "aws:ResourceTag/Stage", "prod")), set()),
]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [pytest.param(policy, expected, marks=spec(rule)) for rule, policy, expected in CASES],
)
async def test_who_may_send(sqs: Sqs, policy: str, expected: set[str]) -> None:
    url = await sqs.queue(Policy=policy)
    await sqs("TagQueue", QueueUrl=url, Tags={"stage": "test"}, policies_enforced=False)
    assert await let_in(sqs, url) == expected


@spec("policy.effect")
async def test_no_policy(sqs: Sqs) -> None:
    bad = ("InvalidAttributeValue", "Invalid value for the parameter Policy.")
    assert await refused(sqs.queue(Policy=document(statement(Effect="allow")))) == bad


@spec("policy.unknown-action")
@pytest.mark.parametrize(
    ("action", "unknown"),
    [
        ("sqs:SendMesage", ["sqs:SendMesage"]),
        (["sqs:SendMessage", "SNS:Publish", "sqs:Sned*"], ["SNS:Publish", "sqs:Sned*"]),
        ([f"sqs:X{n}" for n in range(7)], [f"sqs:X{n}" for n in range(5)]),
        ("sqs:" + "x" * 500, ["sqs:" + "x" * 76]),
        (["*", "sqs:*", "SQS:sendmessage*", "sqs:?agQueue", "sqs:DeleteMessageBatch"], None),
    ],
)
async def test_unknown_actions_are_accepted_with_a_warning(
    sqs: Sqs, action: Element, unknown: list[str] | None
) -> None:
    with capture_logs() as logged:
        url = await sqs.queue(Policy=document(statement(Action=action)))
        await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": document(statement(Action=action))})
    warnings = [entry for entry in logged if entry["event"] == "queue_policy.unknown_actions_accepted"]
    assert [entry["actions"] for entry in warnings] == ([] if unknown is None else [unknown] * 2)
    assert {entry["queue"] for entry in warnings} <= {ARN}


@spec("policy.key-request-tag")
async def test_tags_that_a_call_names(sqs: Sqs) -> None:
    deny = {"Effect": "Deny", "Principal": "*", "Resource": "*"}
    url = await sqs.queue(
        Policy=document(
            statement(**deny, Action="sqs:TagQueue", Condition={"StringEquals": {"aws:RequestTag/stage": "prod"}}),
            statement(**deny, Action="sqs:*Queue", Condition={"ForAnyValue:StringEquals": {"aws:TagKeys": ["fixed"]}}),
        )
    )
    await sqs("TagQueue", QueueUrl=url, Tags={"stage": "test", "other": "prod"})
    for action, members in (
        ("TagQueue", {"Tags": {"stage": "prod"}}),
        ("TagQueue", {"Tags": {"a": "b", "fixed": "x"}}),
        ("UntagQueue", {"TagKeys": ["stage", "fixed"]}),
    ):
        assert (await refused(sqs(action, QueueUrl=url, **members)))[0] == "AccessDenied"
    await sqs("UntagQueue", QueueUrl=url, TagKeys=["stage"])
