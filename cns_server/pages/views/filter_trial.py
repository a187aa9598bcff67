"""Tries a filter policy on a message that a person gives: whether it matches, and which key is not met. No I/O."""

from __future__ import annotations

import json
from typing import NamedTuple

from cns.filters.evaluation import matches
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import AllOf, AnyOf, Filter, Leaf, Scope
from cns.filters.parser import OR, read_filter
from cns.filters.reasons import reason
from cns.notification import Attributes
from cns_common.errors import RequestError

BODY_SCOPE = "MessageBody"
SCOPES = ("MessageAttributes", BODY_SCOPE)

TRIAL_FIELDS = ("policy", "scope", "attributes", "body")
"""The fields of the form, in the order of the arguments of `try_policy`."""


class KeyVerdict(NamedTuple):
    """Whether a key of the policy is met; why not, if it is not."""

    key: str
    met: bool
    reason: str = ""


class Trial(NamedTuple):
    """`matched` is None where the policy or the message cannot be read; `text` says why."""

    matched: bool | None
    text: str
    keys: tuple[KeyVerdict, ...] = ()


def try_policy(policy: str, scope: str, attributes: str, body: str) -> Trial:
    """`attributes` is JSON: `{"kind": "new", "size": 3}`, or with DataType and StringValue as the API has them."""
    try:
        asked = read_filter(policy, Scope(scope if scope in SCOPES else SCOPES[0]))[1]
    except RequestError as error:
        return Trial(None, error.message)
    values = _values(asked.scope, attributes, body)
    if isinstance(values, str):
        return Trial(None, values)
    keys = tuple(_verdict(asked, part, values) for part in asked.root.parts)
    if matches(asked, values):
        return Trial(True, "The policy accepts the message.", keys)
    return Trial(False, f"The policy keeps the message away: {reason(asked, values)}.", keys)


def _verdict(policy: Filter, part: Leaf | AnyOf, values: MessageValues) -> KeyVerdict:
    alone = Filter(policy.scope, AllOf((part,)))
    key = part.path if isinstance(part, Leaf) else OR
    met = matches(alone, values)
    return KeyVerdict(key, met, "" if met else reason(alone, values))


def _values(scope: Scope, attributes: str, body: str) -> MessageValues | str:
    """The message's values, or why they cannot be read."""
    if scope is not Scope.ATTRIBUTES:
        values = body_values(body)
        return "The body is no JSON object, so no policy on the body matches it." if values is None else values
    try:
        read = read_attributes(attributes)
    except ValueError as error:
        return str(error)
    found = attribute_values(read)
    return "An attribute is malformed, so no policy can be evaluated." if found is None else found


def read_attributes(text: str) -> Attributes:
    """The attributes in JSON that a person typed; none for an empty text. Raises ValueError with a sentence."""
    try:
        given = json.loads(text or "{}")
        return {str(name): _attribute(value) for name, value in given.items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f'The attributes must be JSON like {{"kind": "new", "size": 3}}: {error}') from None


def _attribute(value: object) -> tuple[str, str]:
    match value:
        case {"DataType": str() as data_type, "StringValue": str() as text}:
            return data_type, text
        case str():
            return "String", value
        case bool() | list():
            return "String.Array", json.dumps(value if isinstance(value, list) else [value])
        case int() | float():
            return "Number", json.dumps(value)
        case _:
            raise TypeError("a value is text, a number, or a list")
