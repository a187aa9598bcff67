"""Refused policy documents with their reasons, and the properties of a policy that services limit."""

from __future__ import annotations

import json

import pytest

from cns_common.aws.policy.evaluation import PolicyError, read_policy
from tests.unit.aws.policies import OTHER, OWNER, QUEUE, TOPIC, Element, policy, statement


def document(**changed: Element) -> str:
    return json.dumps({"Statement": statement(**changed)})


BAD_DOCUMENTS = {
    "empty": ("", "Policy is not valid JSON"),
    "not JSON": ("{'Statement':[]}", "Policy is not valid JSON"),
    "not finite": ('{"Statement":NaN}', "Policy is not valid JSON: NaN"),
    "nested without end": ("[" * 30_000, "Policy is not valid JSON"),
    "number without end": ('{"Id":' + "9" * 8000 + "}", "Policy is not valid JSON"),
    "list": ("[]", "Policy must be an object"),
    "string": ('"*"', "Policy must be an object"),
    "null": ("null", "Policy must be an object"),
    "twice": ('{"Statement":[],"Statement":[]}', "Policy has the same element twice"),
    "no statement": ("{}", "Statement must be an object"),
    "no statements": ('{"Statement":[]}', "Statement is empty"),
    "statement a string": ('{"Statement":["*"]}', "Statement must be an object"),
    "version": (json.dumps({"Version": "2012-10-18", "Statement": statement()}), "Version must be one of"),
    "version a list": (json.dumps({"Version": [], "Statement": statement()}), "Version must be one of"),
    "id": (json.dumps({"Id": 1, "Statement": statement()}), "Id must be a string"),
    "unknown element": (json.dumps({"version": "2012-10-17"}), "Unknown element in Policy: version"),
    "unknown in statement": (document(Principals="*"), "Unknown element in Statement: Principals"),
    "sid": (document(Sid=1), "Sid must be a string"),
    "no effect": (document(Effect=None), "Effect must be Allow or Deny"),
    "effect in lower case": (document(Effect="allow"), "Effect must be Allow or Deny"),
    "effect a list": (document(Effect=["Allow"]), "Effect must be Allow or Deny"),
    "no principal": (document(Principal=None), "Statement must have either Principal or NotPrincipal"),
    "both principals": (document(NotPrincipal="*"), "Statement must have either Principal or NotPrincipal"),
    "allow all but one": (document(Principal=None, NotPrincipal="*"), "NotPrincipal is not supported with Allow"),
    "principal a name": (document(Principal="bob"), 'Principal must be "*" or name'),
    "principal empty": (document(Principal={}), 'Principal must be "*" or name'),
    "principal kind": (document(Principal={"aws": "*"}), 'Principal must be "*" or name'),
    "principal none": (document(Principal={"AWS": []}), "Principal AWS must be a string or a list of strings"),
    "principal number": (document(Principal={"AWS": [1]}), "Principal AWS must be a string or a list of strings"),
    "principal half": (document(Principal={"AWS": f"arn:aws:iam::{OTHER}:user/*"}), "Invalid principal in policy"),
    "principal short": (document(Principal={"AWS": "12345"}), "Invalid principal in policy: 12345"),
    "no action": (document(Action=None), "Statement must have either Action or NotAction"),
    "both actions": (document(NotAction="sqs:*"), "Statement must have either Action or NotAction"),
    "action bare": (document(Action="SendMessage"), "Invalid action in policy: SendMessage"),
    "action empty": (document(Action=""), "Action must be a string or a list of strings"),
    "action a map": (document(Action={"a": "b"}), "Action must be a string or a list of strings"),
    "no resource": (document(Resource=None), "Statement must have either Resource or NotResource"),
    "both resources": (document(NotResource=QUEUE), "Statement must have either Resource or NotResource"),
    "resources none": (document(Resource=[]), "Resource must be a string or a list of strings"),
    "condition a list": (document(Condition=[]), "Condition must be an object"),
    "condition operator": (document(Condition={"Equals": {"a": "b"}}), "Invalid condition operator: Equals"),
    "condition quantifier": (
        document(Condition={"ForSome:StringLike": {"a": "b"}}),
        "Invalid condition operator: ForSome:StringLike",
    ),
    "condition of no quantifier": (
        document(Condition={":StringLike": {"a": "b"}}),
        "Invalid condition operator: :StringLike",
    ),
    "condition keys": (document(Condition={"Bool": ["a"]}), "Condition Bool must be an object"),
    "condition value": (document(Condition={"Bool": {"a": {"b": 1}}}), "Condition values of a must be strings"),
    "condition null": (document(Condition={"Bool": {"a": None}}), "Condition values of a must be strings"),
    "null of neither": (document(Condition={"Null": {"a": "maybe"}}), "Null must be true or false"),
    "null if exists": (document(Condition={"NullIfExists": {"a": "true"}}), "Invalid condition operator: NullIfExists"),
    "variable": (
        json.dumps({"Version": "2012-10-17", "Statement": statement(Resource="${a, b}")}),
        "Invalid policy variable: ${a, b}",
    ),
}


@pytest.mark.spec("policy.version", "policy.effect", "policy.pairs", "policy.no-star-in-arn", "policy.not-principal")
@pytest.mark.parametrize(("text", "reason"), BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS.keys())
def test_bad_documents(text: str, reason: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(text)
    assert str(caught.value).startswith(reason)


def test_what_services_count() -> None:
    asked = policy(
        statement(Sid="a", Principal={"AWS": [OWNER, OTHER], "Service": "sns.amazonaws.com"}),
        statement(Resource=[QUEUE, TOPIC], Condition={"Bool": {"a": "true", "b": "true"}, "Null": {"c": "true"}}),
    )
    assert [each.principals.count for each in asked.statements] == [3, 1]
    assert [len(each.conditions) for each in asked.statements] == [0, 3]
    assert asked.statements[1].resources == (QUEUE, TOPIC)
