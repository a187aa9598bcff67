"""The condition operators: how one value of a request satisfies one value of a policy."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TypeVar

from cns_common.arn import parse_arn
from cns_common.aws.policy.parser import ExactText, Resolved, arn_wildcard, plain_text, wildcard

T = TypeVar("T")
Test = Callable[[str], bool]
"""Whether a value of the request satisfies one value of the policy."""

TRUTH = {"true": True, "false": False}

_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?")
_EPOCH = re.compile(r"-?[0-9]{1,11}")
_NETWORK = re.compile(r"[^/]+(?:/[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Operator:
    test: Callable[[Resolved], Test]
    negated: bool = False
    variables: bool = True  # whether `${…}` in its values names a variable


def _equal(wanted: Resolved) -> Test:
    return partial(operator.eq, plain_text(wanted))


def _equal_ignoring_case(wanted: Resolved) -> Test:
    text = plain_text(wanted).lower()
    return lambda value: value.lower() == text


def _like(wanted: Resolved) -> Test:
    in_units = (_units(piece) if isinstance(piece, str) else ExactText(_units(piece.text)) for piece in wanted)
    pattern = wildcard(tuple(in_units))
    return lambda value: pattern.fullmatch(_units(value)) is not None


def _units(text: str) -> str:
    """The text with one character per UTF-16 unit: `?` matches one unit."""
    if text.isascii():
        return text
    wire = text.encode("utf-16-be", "surrogatepass")
    return "".join([chr(high << 8 | low) for high, low in zip(wire[::2], wire[1::2], strict=True)])


def _ordered(read: Callable[[str], T | None], compare: Callable[[T, T], bool]) -> Callable[[Resolved], Test]:
    """A comparison of numbers, dates, truth values or bytes. A value that `read` cannot read compares as false."""

    def test_for(wanted: Resolved) -> Test:
        limit = read(plain_text(wanted))

        def test(text: str) -> bool:
            value = read(text)
            return value is not None and limit is not None and compare(value, limit)

        return test

    return test_for


def _number(text: str) -> Decimal | None:
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def _date(text: str) -> Decimal | None:
    """Seconds since the epoch of an ISO 8601 date or an epoch time. A date without a zone is in UTC."""
    if _EPOCH.fullmatch(text):
        return Decimal(text)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return Decimal((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())


def _truth(text: str) -> bool | None:
    return TRUTH.get(text.lower())


def _binary(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _in_network(wanted: Resolved) -> Test:
    network = _network(plain_text(wanted))

    def test(text: str) -> bool:
        address = _address(text)
        return address is not None and network is not None and address in network

    return test


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """AWS ignores host bits of an IPv4 range. An IPv6 range with host bits matches nothing."""
    if not _NETWORK.fullmatch(text):
        return None
    try:
        return ipaddress.ip_network(text, strict=":" in text)
    except ValueError:
        return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _arn_like(wanted: Resolved) -> Test:
    pattern = arn_wildcard(wanted)
    return lambda value: pattern is not None and parse_arn(value) is not None and pattern.fullmatch(value) is not None


def _comparisons(name: str, read: Callable[[str], Decimal | None]) -> dict[str, Operator]:
    """The six operators that numbers and dates share."""
    equal = _ordered(read, operator.eq)
    return {
        f"{name}Equals": Operator(equal, variables=False),
        f"{name}NotEquals": Operator(equal, negated=True, variables=False),
        f"{name}LessThan": Operator(_ordered(read, operator.lt), variables=False),
        f"{name}LessThanEquals": Operator(_ordered(read, operator.le), variables=False),
        f"{name}GreaterThan": Operator(_ordered(read, operator.gt), variables=False),
        f"{name}GreaterThanEquals": Operator(_ordered(read, operator.ge), variables=False),
    }


OPERATORS: Mapping[str, Operator] = {
    "StringEquals": Operator(_equal),
    "StringNotEquals": Operator(_equal, negated=True),
    "StringEqualsIgnoreCase": Operator(_equal_ignoring_case),
    "StringNotEqualsIgnoreCase": Operator(_equal_ignoring_case, negated=True),
    "StringLike": Operator(_like),
    "StringNotLike": Operator(_like, negated=True),
    **_comparisons("Numeric", _number),
    **_comparisons("Date", _date),
    "Bool": Operator(_ordered(_truth, operator.eq), variables=False),
    "BinaryEquals": Operator(_ordered(_binary, operator.eq), variables=False),
    "IpAddress": Operator(_in_network, variables=False),
    "NotIpAddress": Operator(_in_network, negated=True, variables=False),
    "ArnEquals": Operator(_arn_like),
    "ArnLike": Operator(_arn_like),
    "ArnNotEquals": Operator(_arn_like, negated=True),
    "ArnNotLike": Operator(_arn_like, negated=True),
}
