"""Queue policies: which documents a queue takes."""

from __future__ import annotations

from common.aws.policy import Policy, PolicyError
from common.aws.policy import read_policy as read_document
from common.errors import RequestError
from cqs.limits import POLICY_BYTES_MAX, POLICY_PRINCIPALS_MAX, POLICY_STATEMENTS_MAX


def read_policy(text: str) -> Policy:
    if len(text.encode(errors="replace")) > POLICY_BYTES_MAX:
        raise RequestError("OverLimit", f"The policy is longer than the {POLICY_BYTES_MAX} bytes allowed")
    try:
        text.encode()
        policy = read_document(text)
    except (PolicyError, UnicodeEncodeError):
        raise RequestError("InvalidAttributeValue", "Invalid value for the parameter Policy.") from None
    statements = len(policy.statements)
    if statements > POLICY_STATEMENTS_MAX:
        raise RequestError(
            "OverLimit",
            f"{statements} statements were found in the submitted policy, max allowed is {POLICY_STATEMENTS_MAX}",
        )
    principals = sum(statement.principals.count for statement in policy.statements)
    if principals > POLICY_PRINCIPALS_MAX:
        raise RequestError(
            "OverLimit",
            f"{principals} principals were found in the submitted policy, max allowed is {POLICY_PRINCIPALS_MAX}",
        )
    return policy
