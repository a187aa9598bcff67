"""Parse the operands of filter policy operators: ranges of numbers, networks, wildcard patterns."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from cns.filters import literals
from cns.filters.limits import NUMBER_MAX, STARS_MAX
from cns.filters.model import Exact, Numeric, Wildcard
from cns.filters.tokenizer import NUMBER, STRING, Cursor, FilterPolicyError

_MASK_BITS = re.compile(r"-?[0-9]{1,9}")
_BOTTOMS = {">": False, ">=": True}
_TOPS = {"<": False, "<=": True}
"""Operators, each with whether the range includes the number itself."""


def number(cursor: Cursor) -> Decimal:
    """Read the current token, a number, and check its size."""
    try:
        value = Decimal(cursor.text())
    except InvalidOperation:  # beyond what Decimal holds
        value = Decimal("Infinity")
    if not -NUMBER_MAX <= value <= NUMBER_MAX:
        raise cursor.error("Value must be between -1.0E9 and 1.0E9, inclusive")
    return value


def numeric(cursor: Cursor) -> Numeric:
    """Read the array whose opening bracket is the current token."""
    if cursor.next() != STRING:
        raise cursor.error(f"Invalid member in numeric match: {cursor.text()}")
    operator = cursor.text()
    if operator == "=":
        value = literals.round_down(_bound(cursor, "equals"))
        _end(cursor)
        return Numeric(value, value)
    if operator in _TOPS:
        value = literals.round_down(_bound(cursor, operator))
        _end(cursor)
        return Numeric(None, value, most_included=_TOPS[operator])
    if operator not in _BOTTOMS:
        cursor.next()
        raise cursor.error(f"Unrecognized numeric range operator: {operator}")
    value = _bound(cursor, operator)
    kind = cursor.next()
    if kind == "]":
        return Numeric(literals.round_down(value), None, least_included=_BOTTOMS[operator])
    return _range(cursor, kind, value, least_included=_BOTTOMS[operator])


def _range(cursor: Cursor, kind: str, least: Decimal, *, least_included: bool) -> Numeric:
    if kind != STRING:
        raise cursor.error(f"Bad value in numeric range: {cursor.text()}")
    operator = cursor.text()
    if operator not in _TOPS:
        raise cursor.error(f"Bad numeric range operator: {operator}")
    most = _bound(cursor, operator)
    if cursor.next() != "]":
        raise cursor.error("Too many terms in numeric range expression")
    if least >= most:
        raise cursor.error("Bottom must be less than top")
    return Numeric(literals.round_down(least), literals.round_down(most), least_included, _TOPS[operator])


def _bound(cursor: Cursor, operator: str) -> Decimal:
    if cursor.next() != NUMBER:
        raise cursor.error(f"Value of {operator} must be numeric")
    return number(cursor)


def _end(cursor: Cursor) -> None:
    if cursor.next() != "]":
        raise cursor.error("Too many elements in numeric expression")


def network(text: str) -> IPv4Network | IPv6Network:
    """Parse a CIDR block. An address inside the network stands for the network. AWS gives these errors no location."""
    address, slash, bits = text.partition("/")
    if not slash or "/" in bits:
        raise FilterPolicyError("Malformed CIDR, one '/' required")
    if not _MASK_BITS.fullmatch(bits):
        raise FilterPolicyError("Malformed CIDR, mask bits must be an integer")
    if bits[0] == "-":
        raise FilterPolicyError("Malformed CIDR, mask bits must not be negative")
    if int(bits) >= (bits_max := _address_bits(address)):
        raise FilterPolicyError(f"IPv{6 if ':' in address else 4} mask bits must be < {bits_max}")
    return ip_network((address, int(bits)), strict=False)


def _address_bits(address: str) -> int:
    refusal = f"Nonstandard IP address: {address}"
    if "%" in address:  # the zone of an address is known to one machine only
        raise FilterPolicyError(refusal)
    try:
        return ip_address(address).max_prefixlen
    except ValueError:
        raise FilterPolicyError(refusal) from None


def wildcard(cursor: Cursor, text: str) -> Wildcard | Exact:
    """Parse the text of the current token. A pattern without a wildcard is an exact value."""
    parts = [""]
    characters = iter(enumerate(text, 1))  # AWS counts the quotation mark in front
    for position, character in characters:
        if character == "*":
            if len(parts) > 1 and not parts[-1] and text[position - 2] == "*":
                raise cursor.error(f"Consecutive wildcard characters at pos {position - 1}")
            parts.append("")
        elif character == "\\":
            _, escaped = next(characters, (0, ""))
            if escaped not in ("*", "\\"):
                raise cursor.error(f"Invalid escape character at pos {position}")
            parts[-1] += escaped
        else:
            parts[-1] += character
    if len(parts) - 1 > STARS_MAX:
        raise cursor.error(f"wildcard match pattern can not have more than {STARS_MAX} wildcards")
    return Wildcard(tuple(parts)) if len(parts) > 1 else Exact(literals.of_string(parts[0]))
