"""Policies: the verdict of a document on a request, and the resulting access of the caller."""

from __future__ import annotations

import pytest

from cns_common.aws.call import ANONYMOUS, Caller
from cns_common.aws.policy.evaluation import (
    Decision,
    Policy,
    PolicyVerdict,
    decide,
    read_policy,
    sns_refusal,
    sqs_refusal,
)
from tests.unit.aws.policies import (
    OTHER,
    OTHER_ROOT,
    OWNER,
    QUEUE,
    ROOT,
    SNS,
    TOPIC,
    USER,
    Element,
    allows,
    policy,
    request,
    statement,
)

# The policy that the SNS guide recommends for a queue, and common ones of the same meaning.
TOPIC_TO_QUEUE = {
    "guide": statement(
        Principal={"Service": "sns.amazonaws.com"},
        Action="sqs:SendMessage",
        Resource=QUEUE,
        Condition={"ArnEquals": {"aws:SourceArn": TOPIC}},
    ),
    "before service principals": statement(
        Principal="*", Action="SQS:SendMessage", Resource=QUEUE, Condition={"ArnLike": {"aws:SourceArn": TOPIC}}
    ),
    "as a string": statement(
        Principal={"Service": ["sns.amazonaws.com", "events.amazonaws.com"]},
        Action=["sqs:Send*"],
        Resource=[QUEUE],
        Condition={"StringEquals": {"AWS:SourceARN": [TOPIC]}},
    ),
    "every topic of the account": statement(
        Principal={"Service": "sns.amazonaws.com"},
        Action="sqs:SendMessage",
        Resource=QUEUE,
        Condition={
            "ArnLike": {"aws:SourceArn": f"arn:aws:sns:*:{OWNER}:My*"},
            "StringEquals": {"aws:SourceAccount": OWNER},
        },
    ),
}


@pytest.mark.spec("policy.condition-keys", "policy.conditions-and")
@pytest.mark.parametrize("element", TOPIC_TO_QUEUE.values(), ids=TOPIC_TO_QUEUE.keys())
def test_a_topic_sends_to_a_queue_whose_policy_names_it(element: dict[str, Element]) -> None:
    asked = policy(element, version="2008-10-17")
    facts = {"aws:SourceArn": TOPIC, "aws:SourceAccount": OWNER}
    assert decide(asked, OWNER, request(SNS, facts=facts)) is PolicyVerdict.ALLOWED
    other_topic = facts | {"aws:SourceArn": f"arn:aws:sns:us-east-2:{OWNER}:Another"}
    assert decide(asked, OWNER, request(SNS, facts=other_topic)) is PolicyVerdict.NOT_ALLOWED
    assert decide(asked, OWNER, request(SNS)) is PolicyVerdict.NOT_ALLOWED
    assert decide(asked, OWNER, request(SNS, "sqs:ReceiveMessage", facts=facts)) is PolicyVerdict.NOT_ALLOWED
    assert decide(asked, OWNER, request(SNS, resource=f"{QUEUE}2", facts=facts)) is PolicyVerdict.NOT_ALLOWED


def test_the_default_topic_policy_gives_direct_callers_nothing() -> None:
    text = (
        '{"Version":"2008-10-17","Id":"__default_policy_ID","Statement":[{"Sid":"__default_statement_ID",'
        '"Effect":"Allow","Principal":{"AWS":"*"},"Action":["SNS:GetTopicAttributes","SNS:SetTopicAttributes",'
        '"SNS:AddPermission","SNS:RemovePermission","SNS:DeleteTopic","SNS:Subscribe","SNS:ListSubscriptionsByTopic",'
        f'"SNS:Publish"],"Resource":"{TOPIC}","Condition":{{"StringEquals":{{"AWS:SourceOwner":"{OWNER}"}}}}}}]}}'
    )
    default = read_policy(text)
    for caller, verdict in (
        (ROOT, PolicyVerdict.ALLOWED),
        (OTHER_ROOT, PolicyVerdict.NOT_ALLOWED),
        (ANONYMOUS, PolicyVerdict.NOT_ALLOWED),
    ):
        assert decide(default, OWNER, request(caller, "sns:Publish", TOPIC)) is verdict
    s3 = Caller(account="", arn="", user_id="", service="s3.amazonaws.com")
    assert (
        decide(default, OWNER, request(s3, "sns:Publish", TOPIC, {"aws:SourceOwner": OWNER})) is PolicyVerdict.ALLOWED
    )
    assert [each.sid for each in default.statements] == ["__default_statement_ID"]
    assert default.statements[0].actions[-1] == "SNS:Publish"


PRINCIPALS: list[tuple[Element, set[str]]] = [
    ("*", {"root", "user", "sns", "anonymous"}),
    ({"AWS": "*"}, {"root", "user", "sns", "anonymous"}),
    ({"AWS": ["*"]}, {"root", "user", "sns", "anonymous"}),
    ({"AWS": OTHER}, {"root", "user"}),
    ({"AWS": f"arn:aws:iam::{OTHER}:root"}, {"root", "user"}),
    ({"AWS": f"arn:aws-cn:iam::{OTHER}:root"}, {"root", "user"}),
    ({"AWS": [OWNER, OTHER]}, {"root", "user"}),
    ({"AWS": OWNER}, set()),
    ({"AWS": USER.arn}, {"user"}),
    ({"AWS": f"arn:aws:iam::{OTHER}:user/bob"}, set()),
    ({"AWS": f"arn:aws:sts::{OTHER}:assumed-role/role/session"}, set()),
    ({"Service": "sns.amazonaws.com"}, {"sns"}),
    ({"Service": "s3.amazonaws.com"}, set()),
    ({"Service": ["s3.amazonaws.com", "sns.amazonaws.com"], "AWS": USER.arn}, {"sns", "user"}),
    ({"Federated": "cognito-identity.amazonaws.com"}, set()),
    ({"CanonicalUser": "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"}, set()),
]
CALLERS = {"root": OTHER_ROOT, "user": USER, "sns": SNS, "anonymous": ANONYMOUS}


@pytest.mark.spec(
    "policy.everyone",
    "policy.account",
    "policy.identity",
    "policy.principal-list",
    "policy.service",
    "policy.service-principal",
)
@pytest.mark.parametrize(("element", "expected"), PRINCIPALS)
def test_principal(element: Element, expected: set[str]) -> None:
    asked = policy(statement(Principal=element))
    assert {name for name, caller in CALLERS.items() if allows(asked, request(caller))} == expected


@pytest.mark.spec("policy.not-principal", "policy.not-principal-session")
@pytest.mark.parametrize(
    ("element", "denied"),
    [
        ("*", set()),
        ({"AWS": OTHER}, {"user", "sns", "anonymous"}),
        ({"AWS": [OTHER, USER.arn]}, {"sns", "anonymous"}),
        ({"AWS": USER.arn}, {"root", "user", "sns", "anonymous"}),
        ({"Service": "sns.amazonaws.com"}, {"root", "user", "anonymous"}),
        ({"Service": "s3.amazonaws.com"}, {"root", "user", "sns", "anonymous"}),
    ],
)
def test_not_principal(element: Element, denied: set[str]) -> None:
    asked = policy(statement(Effect="Deny", Principal=None, NotPrincipal=element))
    found = {name for name, caller in CALLERS.items() if asked.evaluate(request(caller)) is Decision.DENY}
    assert found == denied


@pytest.mark.spec("policy.action-case", "policy.action-wildcards")
@pytest.mark.parametrize(
    ("element", "action", "matches"),
    [
        ("*", "sqs:SendMessage", True),
        ("sqs:*", "sqs:SendMessage", True),
        ("SQS:sendmessage", "sqs:SendMessage", True),
        ("sqs:Send*", "sqs:SendMessage", True),
        ("sqs:*Message", "sqs:SendMessage", True),
        ("sqs:?endMessage", "sqs:SendMessage", True),
        ("sqs:S?Message", "sqs:SendMessage", False),
        ("sqs:Send", "sqs:SendMessage", False),
        ("sqs:SendMessage", "sqs:SendMessageBatch", False),
        ("sns:*", "sqs:SendMessage", False),
        (["sns:Publish", "sqs:SendMessage"], "sqs:SendMessage", True),
        (["sqs:Get*", "sqs:Delete*"], "sqs:SendMessage", False),
    ],
)
def test_action(element: Element, action: str, matches: bool) -> None:
    assert allows(policy(statement(Action=element)), request(action=action)) is matches
    assert allows(policy(statement(Action=None, NotAction=element)), request(action=action)) is not matches


@pytest.mark.spec("policy.resource", "policy.resource-wildcards")
@pytest.mark.parametrize(
    ("element", "matches"),
    [
        (QUEUE, True),
        ("*", True),
        (QUEUE.lower(), False),
        (f"{QUEUE}?", False),
        ("arn:aws:sqs:us-east-?:123456789012:MyQueue", True),
        ("arn:*:MyQueue", True),
        ("arn:aws:sqs:*", True),
        ("*My*ue", True),
        ("*My*x*ue", False),
        ("arn:aws:sqs:us-east-2:123456789012:My", False),
        (["arn:aws:sqs:*:*:A*", "arn:aws:sqs:*:*:M*"], True),
        ("arn.aws.sqs.us-east-2.123456789012.MyQueue", False),
    ],
)
def test_resource(element: Element, matches: bool) -> None:
    assert allows(policy(statement(Resource=element)), request()) is matches
    assert allows(policy(statement(Resource=None, NotResource=element)), request()) is not matches


VARIABLES = [
    ("2012-10-17", "arn:aws:sqs:*:*:${aws:username}", True),
    ("2012-10-17", "arn:aws:sqs:*:*:${AWS:UserName}", True),
    ("2012-10-17", "arn:aws:sqs:*:*:My${suffix, 'Queue'}", True),
    ("2012-10-17", "arn:aws:sqs:*:*:My${suffix,'Other'}", False),
    ("2012-10-17", "arn:aws:sqs:*:*:${aws:username, 'Other'}", True),
    ("2012-10-17", "arn:aws:sqs:*:*:${unknown}", False),
    ("2012-10-17", "arn:aws:sqs:*:*:${star}", False),  # a value's wildcards are plain text
    ("2012-10-17", "arn:aws:sqs:*:*:${*}", False),
    ("2012-10-17", "arn:aws:sqs:*:*:${many}", False),
    ("2008-10-17", "arn:aws:sqs:*:*:${aws:username}", False),
    ("2008-10-17", "arn:aws:sqs:*:*:*", True),
]


@pytest.mark.spec("policy.variables")
@pytest.mark.parametrize(("version", "resource", "matches"), VARIABLES)
def test_variables_in_resources(version: str, resource: str, matches: bool) -> None:
    facts: dict[str, str | list[str]] = {"aws:username": "MyQueue", "star": "*", "many": ["MyQueue"]}
    assert allows(policy(statement(Resource=resource), version=version), request(facts=facts)) is matches


def test_a_variable_without_value_takes_the_statement_out() -> None:
    asked = policy(statement(Effect="Deny", Resource=None, NotResource="arn:aws:sqs:*:*:${unknown}"))
    assert asked.evaluate(request()) is Decision.NONE


@pytest.mark.parametrize(
    ("written", "actual"),
    [("a${*}c", "a*c"), ("a${?}c", "a?c"), ("${$}{aws:username}", "${aws:username}")],
)
def test_escaped_wildcards(written: str, actual: str) -> None:
    asked = policy(statement(Resource=written))
    assert allows(asked, request(resource=actual))
    assert not allows(asked, request(resource=actual.replace("*", "b").replace("?", "b").replace("${", "b{")))


@pytest.mark.spec("policy.deny-wins")
def test_one_deny_outweighs_every_allow() -> None:
    send = statement()
    forbid = statement(Effect="Deny", Action="sqs:SendMessage")
    for asked in (policy(send, forbid), policy(forbid, send)):
        assert asked.evaluate(request()) is Decision.DENY
        assert asked.evaluate(request(action="sqs:ReceiveMessage")) is Decision.ALLOW


SILENT = policy(statement(Action="sqs:GetQueueUrl"))
ALLOWING = policy(statement())
SIGNED_ONLY = policy(statement(Principal={"AWS": [OWNER, OTHER]}))
DENYING = policy(statement(), statement(Effect="Deny"))
VERDICTS: list[tuple[Policy | None, dict[str, PolicyVerdict]]] = [
    (None, {"owner": PolicyVerdict.ALLOWED}),
    (SILENT, {"owner": PolicyVerdict.ALLOWED}),
    (ALLOWING, dict.fromkeys(["owner", "other", "sns", "anonymous"], PolicyVerdict.ALLOWED)),
    (SIGNED_ONLY, dict.fromkeys(["owner", "other"], PolicyVerdict.ALLOWED)),
    (DENYING, dict.fromkeys(["owner", "other", "sns", "anonymous"], PolicyVerdict.DENIED)),
]


@pytest.mark.parametrize(("asked", "expected"), VERDICTS)
def test_verdict(asked: Policy | None, expected: dict[str, PolicyVerdict]) -> None:
    callers = {"owner": ROOT, "other": OTHER_ROOT, "sns": SNS, "anonymous": ANONYMOUS}
    found = {name: decide(asked, OWNER, request(caller)) for name, caller in callers.items()}
    assert found == dict.fromkeys(callers, PolicyVerdict.NOT_ALLOWED) | expected


def test_a_service_that_calls_for_the_owner_is_not_the_owner() -> None:
    on_behalf = Caller(account=OWNER, arn="", user_id="", service="sns.amazonaws.com")
    assert decide(None, OWNER, request(on_behalf)) is PolicyVerdict.NOT_ALLOWED


def test_refusal_texts() -> None:
    who = f"User: arn:aws:iam::{OTHER}:root is not authorized to perform:"
    url = "http://localhost/123456789012/MyQueue"
    assert sqs_refusal(PolicyVerdict.NOT_ALLOWED, request(), url) == (
        f"{who} sqs:sendmessage on resource: {QUEUE} because no resource-based policy allows the sqs:sendmessage action"
    )
    assert sqs_refusal(PolicyVerdict.DENIED, request(), url) == (
        f"{who} sqs:sendmessage on resource: {QUEUE} with an explicit deny in a resource-based policy"
    )
    for caller in (ANONYMOUS, SNS):
        assert (
            sqs_refusal(PolicyVerdict.NOT_ALLOWED, request(caller), url) == f"Access to the resource {url} is denied."
        )
    publish = request(action="sns:Publish", resource=TOPIC)
    assert sns_refusal(PolicyVerdict.DENIED, publish) == (
        f"{who} SNS:Publish on resource: {TOPIC} with an explicit deny in a resource-based policy"
    )
    assert sns_refusal(PolicyVerdict.NOT_ALLOWED, publish) == (
        f"{who} SNS:Publish on resource: {TOPIC} because no resource-based policy allows the SNS:Publish action"
    )
    anonymous = request(ANONYMOUS, "sns:Publish", TOPIC)
    assert sns_refusal(PolicyVerdict.NOT_ALLOWED, anonymous).startswith(
        "User: anonymous is not authorized to perform: SNS:"
    )
