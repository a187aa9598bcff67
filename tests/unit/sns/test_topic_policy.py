"""A topic's policy: default, refusals, stored form, and the statements of AddPermission."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns.topics.policy import default_policy_text, policy_to_store, read_stored, with_grant, without_grant
from cns.topics.topic import Topic
from cns_common.aws.call import root_caller
from cns_common.aws.policy.evaluation import Decision, PolicyRequest
from tests.unit.sns.refusals import complaint_of

ACTIONS = (
    "AddPermission",
    "DeleteTopic",
    "GetDataProtectionPolicy",
    "GetTopicAttributes",
    "ListSubscriptionsByTopic",
    "ListTagsForResource",
    "Publish",
    "PutDataProtectionPolicy",
    "Receive",
    "RemovePermission",
    "SetTopicAttributes",
    "Subscribe",
    "TagResource",
    "UntagResource",
)
TOPIC = Topic(id="1", account="111111111111", region="eu-west-1", name="t", created_ms=0)
DEFAULT = default_policy_text(TOPIC)


def statement(**changes: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Principal": {"AWS": "222222222222"},
        "Action": "sns:Publish",
        "Resource": "*",
        **changes,
    }


def document(*statements: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements), **changes})


def decision(text: str, account: str, action: str) -> Decision:
    request = PolicyRequest(principal=root_caller(account), action=action, resource=TOPIC.arn)
    return read_stored(text).evaluate(request)


def test_the_default_lets_nobody_in() -> None:
    assert decision(DEFAULT, "222222222222", "sns:Publish") is Decision.NONE
    assert policy_to_store(DEFAULT) == DEFAULT


@pytest.mark.spec("sns-policy.account-root")
def test_accounts_are_stored_as_their_roots() -> None:
    role = "arn:aws:iam::222222222222:role/r"
    stored = policy_to_store(
        document(
            statement(Principal={"AWS": ["222222222222", role]}),
            statement(Principal={"AWS": "333333333333", "Service": "s3.amazonaws.com"}),
            {"Effect": "Deny", "NotPrincipal": {"AWS": ["222222222222"]}, "Action": "sns:Publish", "Resource": "*"},
        )
    )
    first, second, third = json.loads(stored)["Statement"]
    assert first["Principal"] == {"AWS": ["arn:aws:iam::222222222222:root", role]}
    assert second["Principal"] == {"AWS": "arn:aws:iam::333333333333:root", "Service": "s3.amazonaws.com"}
    assert third["NotPrincipal"] == {"AWS": ["arn:aws:iam::222222222222:root"]}
    assert decision(stored, "222222222222", "sns:Publish") is Decision.ALLOW


@pytest.mark.spec("sns-policy.compact")
def test_stored_compactly_in_the_order_given() -> None:
    text = '{ "Statement": [ {"Resource": "*", "Action":"SNS:Publish", "Principal": "*",\n"Effect": "Deny"} ] }'
    assert policy_to_store(text) == (
        '{"Statement":[{"Resource":"*","Action":"SNS:Publish","Principal":"*","Effect":"Deny"}]}'
    )


@pytest.mark.spec(
    "sns-policy.wildcards",
    "sns-policy.wildcards-at-create",
    "sns-policy.other-actions",
    "sns-policy.not-json",
    "sns-policy.bad-statement",
    "sns-policy.sids",
    "sns-topic-attr.policy-statements",
    "sns-policy.principals",
    "sns-topic-attr.policy-size",
)
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Policy Error: null"),
        ("{", "Policy Error: null"),
        ("\ud800", "Policy Error: null"),
        ("[" * 20_000, "Policy Error: null"),
        ("{}", "Policy Error: Statement must be an object"),
        (document(), "Policy Error: Statement is empty"),
        (document(statement(Effect="allow")), "Policy Error: Effect must be Allow or Deny"),
        (document(statement(Action="SNS:*")), "Policy statement action out of service scope!"),
        (document(statement(Action="*")), "Policy statement action out of service scope!"),
        (document(statement(Action="sns:Get*")), "Policy statement action out of service scope!"),
        (document(statement(Action="sqs:SendMessage")), "Policy statement action out of service scope!"),
        (
            document(statement(Action=["sns:Publish", "sns:CreateTopic"])),
            "Policy statement action out of service scope!",
        ),
        (document(statement(Sid="a"), statement(Sid="a")), "Policy Error: Statement Sids must be unique"),
        (document(*[statement() for _ in range(101)]), "Policy Error: more than 100 statements"),
        (
            document(statement(Principal={"AWS": [f"{number:012}" for number in range(201)]})),
            "Policy Error: more than 200 principals",
        ),
        (document(statement(Sid="a" * 30_720)), "Policy Error: the policy is longer than 30720 bytes"),
    ],
    ids=range(16),
)
def test_refused(text: str, complaint: str) -> None:
    assert complaint_of(policy_to_store, text) == complaint


@pytest.mark.spec("sns-policy.actions", "sns-policy.action-spelling", "sns-policy.resource")
def test_actions_in_scope() -> None:
    for action in ACTIONS:
        spelt = [f"SNS:{action}", f"sns:{action.lower()}"]
        stored = policy_to_store(document(statement(Action=spelt, Resource="arn:aws:sns:x::y")))
        (kept,) = json.loads(stored)["Statement"]
        assert (kept["Action"], kept["Resource"]) == (spelt, "arn:aws:sns:x::y")


def test_a_grant_is_added_as_aws_writes_it() -> None:
    one = with_grant(DEFAULT, TOPIC, "one", ["222222222222"], ["Publish"])
    assert json.loads(one)["Statement"][1] == {
        "Sid": "one",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::222222222222:root"},
        "Action": "SNS:Publish",
        "Resource": TOPIC.arn,
    }
    many = with_grant(one, TOPIC, "many", ["222222222222", "333333333333"], ["Publish", "Subscribe"])
    added = json.loads(many)["Statement"][2]
    assert added["Principal"] == {"AWS": ["arn:aws:iam::222222222222:root", "arn:aws:iam::333333333333:root"]}
    assert added["Action"] == ["SNS:Publish", "SNS:Subscribe"]
    assert decision(one, "222222222222", "sns:Publish") is Decision.ALLOW
    assert decision(one, "222222222222", "sns:Subscribe") is Decision.NONE
    assert decision(many, "333333333333", "sns:Subscribe") is Decision.ALLOW


def test_a_grant_is_taken_out_by_its_label() -> None:
    text = with_grant(DEFAULT, TOPIC, "l", ["222222222222"], ["Publish"])
    assert without_grant(text, "l") == DEFAULT
    assert without_grant(text, "absent") == text


def test_a_policy_without_statements_lets_nobody_in() -> None:
    empty = without_grant(DEFAULT, "__default_statement_ID")
    assert json.loads(empty)["Statement"] == []
    assert decision(empty, "222222222222", "sns:Publish") is Decision.NONE
    assert json.loads(with_grant(empty, TOPIC, "l", ["222222222222"], ["Publish"]))["Statement"]
