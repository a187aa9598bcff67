"""Callers, statements and requests that the tests of policies share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cns_common.aws.call import Caller, root_caller
from cns_common.aws.policy.evaluation import Decision, Policy, PolicyRequest, read_policy

OWNER = "123456789012"
OTHER = "210987654321"
QUEUE = f"arn:aws:sqs:us-east-2:{OWNER}:MyQueue"
TOPIC = f"arn:aws:sns:us-east-2:{OWNER}:MyTopic"
ROOT = root_caller(OWNER)
OTHER_ROOT = root_caller(OTHER)
USER = Caller(account=OTHER, arn=f"arn:aws:iam::{OTHER}:user/team/bob", user_id="AIDABOB")
SNS = Caller(account="", arn="", user_id="", service="sns.amazonaws.com")

Element = Any  # a policy is JSON


def statement(**changed: Element) -> dict[str, Element]:
    """A statement that allows everyone everything, with changed elements; None removes an element."""
    whole = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"} | changed
    return {name: element for name, element in whole.items() if element is not None}


def policy(*statements: dict[str, Element], version: str = "2012-10-17") -> Policy:
    return read_policy(json.dumps({"Version": version, "Statement": list(statements)}))


def request(
    principal: Caller = OTHER_ROOT,
    action: str = "sqs:SendMessage",
    resource: str = QUEUE,
    facts: Mapping[str, str | list[str]] | None = None,
) -> PolicyRequest:
    return PolicyRequest(principal=principal, action=action, resource=resource, facts=facts or {})


def allows(asked: Policy, about: PolicyRequest) -> bool:
    return asked.evaluate(about) is Decision.ALLOW
