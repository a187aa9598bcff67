"""When the provider sends an attribute, and when it sees a difference.

After its `internal/attrmap/attrmap.go`, the comparisons of JSON in `internal/verify` and `internal/sdkv2`, and
hashicorp/awspolicyequivalence for policies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

Values = Mapping[str, str]
"""Attributes by the API's names."""


class Kind(Enum):
    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    JSON = "JSON"
    DOCUMENT = "JSON, where an empty object is as good as nothing"
    TERMS = "a subscription's delivery policy: members that are null, zero or false are as good as absent"
    POLICY = "an access policy"
    SECRET = "a secret: never read back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """`computed`: without a configured value, any value of the service is right."""

    kind: Kind = Kind.TEXT
    default: str = ""
    computed: bool = False


Schema = Mapping[str, Attribute]

_ZERO = {Kind.FLAG: "false", Kind.NUMBER: "0"}
_PRINCIPAL = re.compile(r"\*|[0-9]{12}|arn:.+")
_ROOT = re.compile(r"arn:aws:iam::([0-9]{12}):root")


def at_creation(schema: Schema, wanted: Values) -> dict[str, str]:
    """The attributes to send at creation, defaults included. A flag that is off is left out unless it is computed."""
    sent: dict[str, str] = {}
    for name, attribute in schema.items():
        text = wanted.get(name, attribute.default)
        unsaid = not attribute.computed and attribute.kind is Kind.FLAG and text != "true"
        if text and not unsaid:
            sent[name] = _as_sent(attribute, text)
    return sent


def at_update(schema: Schema, before: Values, after: Values) -> dict[str, str]:
    """The changed attributes, without secrets, which each resource handles itself."""
    sent: dict[str, str] = {}
    for name, attribute in schema.items():
        old, new = (values.get(name, attribute.default) for values in (before, after))
        kept = attribute.computed and name not in after
        if not kept and attribute.kind is not Kind.SECRET and not _same(attribute.kind, old, new):
            sent[name] = _as_sent(attribute, new or _ZERO.get(attribute.kind, ""))
    return sent


def differences(schema: Schema, wanted: Values, found: Values) -> dict[str, tuple[str, str]]:
    """The differences that a plan would show."""
    plan: dict[str, tuple[str, str]] = {}
    for name, attribute in schema.items():
        if attribute.kind is Kind.SECRET or (attribute.computed and name not in wanted):
            continue
        zero = _ZERO.get(attribute.kind, "")
        texts = wanted.get(name, attribute.default) or zero, found.get(name, zero)
        if not _same(attribute.kind, *texts):
            plan[name] = texts
    return plan


def has_valid_principals(policy: str) -> bool:
    """Whether no principal is the id of a deleted one, for which the provider waits."""
    for statement in _list(json.loads(policy)["Statement"]):
        principal = statement["Principal"]
        named = _list(principal.get("AWS", [])) if isinstance(principal, dict) else [principal]
        if not all(_PRINCIPAL.fullmatch(each) for each in named):
            return False
    return True


def _same(kind: Kind, wanted: str, found: str) -> bool:
    if wanted == found:
        return True
    if kind is Kind.DOCUMENT:
        wanted, found = wanted or "{}", found or "{}"
    form = _FORMS.get(kind)
    return bool(form and wanted and found and form(json.loads(wanted)) == form(json.loads(found)))


def _as_sent(attribute: Attribute, text: str) -> str:
    """A policy as the provider sends it: sorted and compact, with Go's escapes."""
    if attribute.kind is not Kind.POLICY or not text:
        return text
    compact = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return compact.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _terms(document: Any) -> Any:
    """Whether two delivery policies are equal. The request policy is not compared."""
    if not isinstance(document, dict):
        return document
    members = {name: _terms(each) for name, each in document.items() if name != "requestPolicy"}
    return {name: each for name, each in members.items() if each}


def _policy(document: Any) -> Any:
    """Whether two policies are equal: one value or a list of one, any order, an account or its root."""
    if isinstance(document, dict):
        return sorted((name, _policy(each)) for name, each in document.items())
    return sorted(_ROOT.sub(r"\1", each) if isinstance(each, str) else str(_policy(each)) for each in _list(document))


def _list(one_or_more: Any) -> list[Any]:
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]


def _plain(document: Any) -> Any:
    return document


_FORMS: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.JSON: _plain,
    Kind.DOCUMENT: _plain,
    Kind.TERMS: _terms,
    Kind.POLICY: _policy,
}
