"""A topic's policy: the default policy, the checks of a new one, and the statements of AddPermission.

A statement may name another topic, or one that does not exist: AWS accepts it, and it has no effect on this topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cns.errors import invalid_parameter
from cns.topics.topic import Topic
from cns_common.arn import ACCOUNT_ID
from cns_common.aws.policy.evaluation import Policy, PolicyError, read_policy
from cns_common.errors import UNREADABLE

POLICY_BYTES_MAX = 30_720
STATEMENTS_MAX = 100
PRINCIPALS_MAX = 200

GRANTABLE = frozenset(
    {
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
    }
)
"""The actions that a topic's policy may name; AWS refuses wildcards."""

_IN_SCOPE = frozenset(f"sns:{action.lower()}" for action in GRANTABLE)
_OUT_OF_SCOPE = "Policy statement action out of service scope!"
_GRANTED_BY_DEFAULT = (
    "GetTopicAttributes",
    "SetTopicAttributes",
    "AddPermission",
    "RemovePermission",
    "DeleteTopic",
    "Subscribe",
    "ListSubscriptionsByTopic",
    "Publish",
)

Document = dict[str, Any]


def default_policy_text(topic: Topic) -> str:
    """The policy that a topic shows until it is given another one.

    Only calls by AWS services have AWS:SourceOwner, so here it grants nothing. The owner needs no policy."""
    return _text(
        {
            "Version": "2008-10-17",
            "Id": "__default_policy_ID",
            "Statement": [
                {
                    "Sid": "__default_statement_ID",
                    "Effect": "Allow",
                    "Principal": {"AWS": "*"},
                    "Action": [f"SNS:{action}" for action in _GRANTED_BY_DEFAULT],
                    "Resource": topic.arn,
                    "Condition": {"StringEquals": {"AWS:SourceOwner": topic.account}},
                }
            ],
        }
    )


def policy_to_store(text: str, prefix: str = "") -> str:
    """Check a caller's policy. Return the text to store: compact, in the given order, account numbers replaced by the
    ARNs of their root users."""
    if len(text) > POLICY_BYTES_MAX:
        raise invalid_parameter(f"{prefix}Policy Error: the policy is longer than {POLICY_BYTES_MAX} bytes")
    try:
        document = msgspec.json.decode(text.encode())
    except UNREADABLE:
        raise invalid_parameter(f"{prefix}Policy Error: null") from None
    try:
        policy = read_policy(text)
    except PolicyError as error:
        raise invalid_parameter(f"{prefix}Policy Error: {error}") from None
    _check(policy, prefix)
    for statement in _statements(document):
        for element in ("Principal", "NotPrincipal"):
            principal = statement.get(element)
            if isinstance(principal, dict) and "AWS" in principal:
                principal["AWS"] = _with_roots(principal["AWS"])
    return _text(document)


def read_stored(text: str) -> Policy:
    """Parse a stored text. A policy whose last statement was removed allows nothing."""
    return read_policy(text) if msgspec.json.decode(text)["Statement"] else Policy(statements=())


def with_grant(text: str, topic: Topic, label: str, accounts: Sequence[str], actions: Sequence[str]) -> str:
    """Add a statement to a policy's text. Its label must be new, or the statement be there already."""
    document: Document = msgspec.json.decode(text)
    statements = _statements(document)
    granted = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_list(list(map(_root, accounts)))},
        "Action": _one_or_list([f"SNS:{action}" for action in actions]),
        "Resource": topic.arn,
    }
    if granted in statements:
        return text
    if any(statement.get("Sid") == label for statement in statements):
        raise invalid_parameter("Statement already exists")
    if not GRANTABLE.issuperset(actions):
        raise invalid_parameter(_OUT_OF_SCOPE)
    return policy_to_store(_text({**document, "Statement": [*statements, granted]}))


def without_grant(text: str, label: str) -> str:
    """Remove the statement with this label, if there is one, from a policy's text."""
    document: Document = msgspec.json.decode(text)
    kept = [each for each in _statements(document) if each.get("Sid") != label]
    return _text({**document, "Statement": kept})


def _check(policy: Policy, prefix: str) -> None:
    statements = policy.statements
    labels = [statement.sid for statement in statements if statement.sid]
    if any(action.lower() not in _IN_SCOPE for statement in statements for action in statement.actions):
        raise invalid_parameter(f"{prefix}{_OUT_OF_SCOPE}")
    if len(set(labels)) != len(labels):
        raise invalid_parameter(f"{prefix}Policy Error: Statement Sids must be unique")
    if len(statements) > STATEMENTS_MAX:
        raise invalid_parameter(f"{prefix}Policy Error: more than {STATEMENTS_MAX} statements")
    if sum(statement.principals.count for statement in statements) > PRINCIPALS_MAX:
        raise invalid_parameter(f"{prefix}Policy Error: more than {PRINCIPALS_MAX} principals")


def _statements(document: Document) -> list[Document]:
    statements = document["Statement"]
    return statements if isinstance(statements, list) else [statements]


def _with_roots(principals: str | list[str]) -> str | list[str]:
    return _with_root(principals) if isinstance(principals, str) else list(map(_with_root, principals))


def _with_root(principal: str) -> str:
    return _root(principal) if ACCOUNT_ID.fullmatch(principal) else principal


def _root(account: str) -> str:
    return f"arn:aws:iam::{account}:root"


def _text(document: Document) -> str:
    return msgspec.json.encode(document).decode()


def _one_or_list(items: list[str]) -> str | list[str]:
    return items[0] if len(items) == 1 else items
