"""Resource policies: a document is read once into a `Policy`, which then decides on each request.

`decide` combines this with the caller's account. An account allows its own callers everything, so only a resource
policy can refuse the owner, and only a resource policy can let others in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import NoReturn

from cns_common.aws.call import Caller
from cns_common.aws.policy.conditions import AnyCondition, conditions
from cns_common.aws.policy.parser import (
    SHARED_MAX,
    Facts,
    PolicyError,
    TextSet,
    UnresolvedVariableError,
    string_list,
    template,
    text_set,
)
from cns_common.aws.policy.principals import Principals, principals
from cns_common.errors import UNREADABLE

__all__ = [
    "Decision",
    "Policy",
    "PolicyError",
    "PolicyRequest",
    "PolicyStatement",
    "PolicyVerdict",
    "decide",
    "read_policy",
    "sns_refusal",
    "sqs_refusal",
]

VERSIONS = ("2008-10-17", "2012-10-17")
VERSION_WITH_VARIABLES = "2012-10-17"

_ACTION = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+")
_DOCUMENT_ELEMENTS = frozenset({"Version", "Id", "Statement"})
_STATEMENT_ELEMENTS = frozenset(
    {
        "Sid",
        "Effect",
        "Principal",
        "NotPrincipal",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    }
)


class Decision(Enum):
    """The decision of a policy on a request; NONE if no statement applies."""

    ALLOW = auto()
    DENY = auto()
    NONE = auto()


class PolicyVerdict(Enum):
    """Whether a request is allowed, and why not."""

    ALLOWED = auto()
    DENIED = auto()  # a statement denies it
    NOT_ALLOWED = auto()  # no statement allows it, and neither does the caller's account


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """A principal, its action and a resource. `facts` maps condition keys, in any case, to one value or a list."""

    principal: Caller
    action: str  # 'sqs:SendMessage'
    resource: str
    facts: Mapping[str, str | list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatement:
    """One statement. `actions` and `resources` are as written: each service has rules of its own about them."""

    sid: str
    allows: bool
    principals: Principals
    not_principal: bool
    actions: tuple[str, ...]
    action_set: TextSet
    not_action: bool
    resources: tuple[str, ...]
    resource_set: TextSet
    not_resource: bool
    conditions: tuple[AnyCondition, ...]

    def applies(self, request: PolicyRequest, facts: Facts) -> bool:
        try:
            return (
                self._covers(request.principal)
                and self.action_set.matches(request.action.lower(), facts) != self.not_action
                and self.resource_set.matches(request.resource, facts) != self.not_resource
                and all(condition.holds(facts) for condition in self.conditions)
            )
        except UnresolvedVariableError:
            return False

    def _covers(self, caller: Caller) -> bool:
        if self.not_principal:
            return not self.principals.exempts(caller)
        return self.principals.includes(caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    statements: tuple[PolicyStatement, ...]

    def evaluate(self, request: PolicyRequest) -> Decision:
        """A statement that denies outweighs all that allow."""
        facts = {key.lower(): value for key, value in request.facts.items()}
        decision = Decision.NONE
        for statement in self.statements:
            if statement.applies(request, facts):
                if not statement.allows:
                    return Decision.DENY
                decision = Decision.ALLOW
        return decision


def decide(policy: Policy | None, owner_account: str, request: PolicyRequest) -> PolicyVerdict:
    """Whether `request` may act on a resource of `owner_account` that has this policy, or none (None)."""
    decision = policy.evaluate(request) if policy is not None else Decision.NONE
    if decision is Decision.DENY:
        return PolicyVerdict.DENIED
    if decision is Decision.ALLOW or _belongs_to(request.principal, owner_account):
        return PolicyVerdict.ALLOWED
    return PolicyVerdict.NOT_ALLOWED


def _belongs_to(caller: Caller, account: str) -> bool:
    """A service that calls on a topic's behalf belongs to no account, not even to the topic owner's."""
    return not caller.service and not caller.anonymous and caller.account == account


def sqs_refusal(verdict: PolicyVerdict, request: PolicyRequest, queue_url: str) -> str:
    """The text of SQS's AccessDenied. AWS writes the action in lower case and names only callers that have an ARN."""
    if not request.principal.arn:
        return f"Access to the resource {queue_url} is denied."
    return _refusal(verdict, request.principal.arn, request.action.lower(), request.resource)


def sns_refusal(verdict: PolicyVerdict, request: PolicyRequest) -> str:
    """The text of SNS's AuthorizationError."""
    caller = request.principal
    service, _, name = request.action.partition(":")
    return _refusal(verdict, caller.arn or caller.service or "anonymous", f"{service.upper()}:{name}", request.resource)


def _refusal(verdict: PolicyVerdict, who: str, action: str, resource: str) -> str:
    if verdict is PolicyVerdict.DENIED:
        why = "with an explicit deny in a resource-based policy"
    else:
        why = f"because no resource-based policy allows the {action} action"
    return f"User: {who} is not authorized to perform: {action} on resource: {resource} {why}"


def read_policy(text: str, *, resource_optional: bool = False) -> Policy:
    """Parse a policy document. Raises PolicyError.

    With `resource_optional` a statement may omit Resource and NotResource: it then applies to every resource, which in
    a queue's policy is the queue (as recorded from SQS; SNS refuses such a statement).
    """
    document = _elements(_json(text), _DOCUMENT_ELEMENTS, "Policy")
    version = document.get("Version", VERSIONS[0])
    if version not in VERSIONS:
        raise PolicyError(f"Version must be one of {', '.join(VERSIONS)}")
    if not isinstance(document.get("Id", ""), str):
        raise PolicyError("Id must be a string")
    statements = document.get("Statement")
    listed = statements if isinstance(statements, list) else [statements]
    if not listed:
        raise PolicyError("Statement is empty")
    variables = version == VERSION_WITH_VARIABLES
    return Policy(statements=tuple(_statement(each, variables, resource_optional) for each in listed))


def _statement(element: object, variables: bool, resource_optional: bool) -> PolicyStatement:
    members = _elements(element, _STATEMENT_ELEMENTS, "Statement")
    sid, effect = members.get("Sid", ""), members.get("Effect")
    if not isinstance(sid, str):
        raise PolicyError("Sid must be a string")
    if effect not in ("Allow", "Deny"):
        raise PolicyError("Effect must be Allow or Deny")
    who, who_not = _either(members, "Principal")
    what, what_not = _either(members, "Action")
    where, where_not = _either(members, "Resource", default="*" if resource_optional else None)
    if who_not and effect == "Allow":
        raise PolicyError("NotPrincipal is not supported with Allow")
    actions = _actions(what)
    resources = tuple(string_list(where, "Resource"))
    return PolicyStatement(
        sid=sid,
        allows=effect == "Allow",
        principals=principals(who, "Principal"),
        not_principal=who_not,
        actions=actions,
        action_set=_action_set(actions),
        not_action=what_not,
        resources=resources,
        resource_set=text_set(template(resource, variables=variables) for resource in resources),
        not_resource=where_not,
        conditions=conditions(members.get("Condition", {}), variables=variables),
    )


def _either(members: Mapping[str, object], name: str, default: str | None = None) -> tuple[object, bool]:
    """The value of an element or of its Not-form, and whether it is the latter.

    A statement must have exactly one of the two; with a `default` it may have neither.
    """
    negated = f"Not{name}"
    if default is not None and name not in members and negated not in members:
        return default, False
    if (name in members) == (negated in members):
        raise PolicyError(f"Statement must have either {name} or {negated}")
    return (members[negated], True) if negated in members else (members[name], False)


def _actions(element: object) -> tuple[str, ...]:
    actions = tuple(string_list(element, "Action"))
    for action in actions:
        if not _ACTION.fullmatch(action):
            raise PolicyError(f"Invalid action in policy: {action}")
    return actions


@lru_cache(SHARED_MAX)
def _action_set(actions: tuple[str, ...]) -> TextSet:
    return text_set(template(action.lower(), variables=False) for action in actions)


def _elements(element: object, known: frozenset[str], name: str) -> Mapping[str, object]:
    if not isinstance(element, dict):
        raise PolicyError(f"{name} must be an object")
    unknown = sorted(element.keys() - known)
    if unknown:
        raise PolicyError(f"Unknown element in {name}: {unknown[0]}")
    return element


def _json(text: str) -> object:
    """Parse JSON, and refuse a name given twice, as the policy language does: a parser would drop one of the two."""
    try:
        document: object = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except PolicyError:
        raise
    except UNREADABLE as error:
        raise PolicyError("Policy is not valid JSON") from error
    return document


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise PolicyError("Policy has the same element twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise PolicyError(f"Policy is not valid JSON: {name}")
