"""Queue policies: which documents a queue takes."""

from __future__ import annotations

from common.aws.policy import Policy, PolicyError
from common.aws.policy import read_policy as read_document
from common.errors import RequestError
from cqs.limits import POLICY_BYTES_MAX, POLICY_CONDITIONS_MAX, POLICY_PRINCIPALS_MAX, POLICY_STATEMENTS_MAX


def read_policy(text: str) -> Policy:
    if len(text.encode(errors="replace")) > POLICY_BYTES_MAX:
        raise RequestError("OverLimit", f"The policy is longer than the {POLICY_BYTES_MAX} bytes allowed")
    try:
        text.encode()
        policy = read_document(text, resource_optional=True)
    except (PolicyError, UnicodeEncodeError):
        raise RequestError("InvalidAttributeValue", "Invalid value for the parameter Policy.") from None
    statements = policy.statements
    _check_number("statements", len(statements), POLICY_STATEMENTS_MAX)
    _check_number("principals", sum(each.principals.count for each in statements), POLICY_PRINCIPALS_MAX)
    _check_number("conditions", sum(len(each.conditions) for each in statements), POLICY_CONDITIONS_MAX)
    return policy


def _check_number(what: str, found: int, most: int) -> None:
    if found > most:
        raise RequestError("OverLimit", f"{found} {what} were found in the submitted policy, max allowed is {most}")
