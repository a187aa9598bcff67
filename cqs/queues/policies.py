"""Validates queue policies."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

from cns_common.aws.policy.evaluation import Policy, PolicyError
from cns_common.aws.policy.evaluation import read_policy as read_document
from cns_common.aws.protocol.models import load_service
from cns_common.errors import RequestError
from cqs.limits import (
    PERMISSION_ACTIONS_MAX,
    POLICY_BYTES_MAX,
    POLICY_CONDITIONS_MAX,
    POLICY_PRINCIPALS_MAX,
    POLICY_STATEMENTS_MAX,
)

UNKNOWN_ACTIONS_MAX = 5
UNKNOWN_CHARS_MAX = 80
"""The length to which an unknown action is cut in a warning."""


def read_policy(text: str) -> Policy:
    if len(text.encode(errors="replace")) > POLICY_BYTES_MAX:
        raise RequestError("OverLimit", "Submitted policy is over max allowed size.")
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


def check_actions(policy: Policy) -> None:
    """Refuse more actions in a statement than AWS takes. Not part of `read_policy`: a stored policy may have more."""
    for each in policy.statements:
        _check_number("actions", len(each.actions), PERMISSION_ACTIONS_MAX, "a statement from the submitted policy")


def unknown_actions(policy: Policy) -> list[str]:
    """Actions in the policy that SQS does not have: at most `UNKNOWN_ACTIONS_MAX`, shortened. They may be typing
    errors.

    Whether SQS refuses such a policy is not documented; SNS does.
    """
    written = {action for statement in policy.statements for action in statement.actions}
    unknown = sorted(action for action in written if not _is_known(action.lower()))
    return [action[:UNKNOWN_CHARS_MAX] for action in unknown[:UNKNOWN_ACTIONS_MAX]]


def _is_known(action: str) -> bool:
    service, _, name = action.partition(":")
    return action == "*" or (service == "sqs" and any(fnmatchcase(known, name) for known in _actions()))


@cache
def _actions() -> frozenset[str]:
    return frozenset(name.lower() for name in load_service("sqs").operations)


def _check_number(what: str, found: int, most: int, where: str = "the submitted policy") -> None:
    if found > most:
        raise RequestError("OverLimit", f"{found} {what} were found in {where}, max allowed is {most}")
