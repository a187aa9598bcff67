"""AddPermission and RemovePermission: statements added to a queue's policy and removed by label."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from cns_common.arn import ACCOUNT_ID
from cns_common.errors import RequestError
from cqs.limits import PERMISSION_ACTIONS_MAX, POLICY_STATEMENTS_MAX
from cqs.messages.validation import invalid, missing
from cqs.queues.policies import read_policy

_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}\Z", re.ASCII)
GRANTABLE = frozenset(
    {
        "*",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    }
)
OWNER_ONLY = frozenset(
    {
        "AddPermission",
        "CancelMessageMoveTask",
        "CreateQueue",
        "DeleteQueue",
        "ListMessageMoveTasks",
        "ListQueues",
        "ListQueueTags",
        "RemovePermission",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    }
)
"""Never allowed to other accounts, whatever the policy says."""


class Grant(NamedTuple):
    label: str
    accounts: list[str]
    actions: list[str]


def read_label(members: Mapping[str, Any]) -> str:
    label: str = members.get("Label") or ""
    if not label:
        raise missing("Label")
    if not _LABEL.match(label):
        raise invalid(
            "Label", label, "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
        )
    return label


def read_grant(members: Mapping[str, Any]) -> Grant:
    label = read_label(members)
    actions: list[str] = members.get("Actions") or []
    if not actions:
        raise missing("Actions")
    if len(actions) > PERMISSION_ACTIONS_MAX:
        raise RequestError(
            "OverLimit", f"{len(actions)} Actions were found, maximum allowed is {PERMISSION_ACTIONS_MAX}."
        )
    for action in actions:
        if action in OWNER_ONLY:
            raise invalid("ActionName", f"SQS:{action}", "Only the queue owner is allowed to invoke this action.")
        if action not in GRANTABLE:
            raise invalid(
                "ActionName", f"SQS:{action}", "Please refer to the appropriate WSDL for a list of valid actions."
            )
    accounts: list[str] = members.get("AWSAccountIds") or []
    if not accounts or not all(ACCOUNT_ID.fullmatch(account) for account in accounts):
        raise invalid("PrincipalId", f"[{', '.join(accounts)}]", "Unable to verify.")
    return Grant(label, accounts, actions)


def with_grant(policy: str, arn: str, grant: Grant) -> str:
    """The policy's text with another statement, unless it has that one. '' is no policy."""
    document = _document(policy) if policy else {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy"}
    statements = _statements(document)
    granted = {
        "Sid": grant.label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_list([f"arn:aws:iam::{account}:root" for account in grant.accounts])},
        "Action": _one_or_list([f"SQS:{action}" for action in grant.actions]),
        "Resource": arn,
    }
    if granted in statements:
        return policy
    if any(statement.get("Sid") == grant.label for statement in statements):
        raise invalid("Label", grant.label, "Already exists.")
    if len(statements) >= POLICY_STATEMENTS_MAX:
        raise RequestError(
            "OverLimit",
            f"{len(statements) + 1} Statements were found, maximum allowed is {POLICY_STATEMENTS_MAX}.",
        )
    text = msgspec.json.encode({**document, "Statement": [*statements, granted]}).decode()
    read_policy(text)
    return text


def without_grant(policy: str, label: str) -> str:
    """The policy's text without the statement of this label; '' if none is left."""
    document = _document(policy) if policy else {}
    statements = _statements(document)
    kept = [statement for statement in statements if statement.get("Sid") != label]
    if len(kept) == len(statements):
        raise invalid("Label", label, "can't find label.")
    return msgspec.json.encode({**document, "Statement": kept}).decode() if kept else ""


def _document(policy: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(policy)
    return document


def _statements(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    statements = document.get("Statement", [])
    return statements if isinstance(statements, list) else [statements]


def _one_or_list(items: list[str]) -> str | list[str]:
    return items[0] if len(items) == 1 else items
