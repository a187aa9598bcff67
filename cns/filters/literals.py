"""How the values of policies and messages are written as literals (see `model`), equal ones as equal texts."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_FLOOR, Context, Decimal, InvalidOperation

STRING_MARK = '"'
NULL, TRUE, FALSE = "null", "true", "false"
DECIMALS_MAX = 5
"""AWS tells the numbers of filters apart to so many decimals."""

_PLAIN_DIGITS_MAX = 30
_PLAIN_CHARS_MAX = 16
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_STEP = Decimal(1).scaleb(-DECIMALS_MAX)


def of_string(text: str) -> str:
    return STRING_MARK + text


def of_number(spelling: str) -> str:
    """Of a JSON number as it is written. One past all arithmetic (1e99999999999999999999) equals its own spelling."""
    if spelling.isdecimal() and len(spelling) <= _PLAIN_CHARS_MAX:
        return spelling
    try:
        number = Decimal(spelling)
    except InvalidOperation:
        return spelling
    if len(spelling) - spelling.find(".") > DECIMALS_MAX + 1 or "e" in spelling or "E" in spelling:
        number = cut(number)
    return _shortest(number)


def of_decimal(number: Decimal) -> str:
    """Of a number, cut to five decimals."""
    return _shortest(cut(number))


def _shortest(number: Decimal) -> str:
    if not number:
        return "0"
    reduced = number.normalize(_EXACT)
    return f"{reduced:f}" if 0 <= reduced.adjusted() < _PLAIN_DIGITS_MAX else str(reduced)


def cut(number: Decimal) -> Decimal:
    """The greatest number of five decimals that is not above the given one.

    AWS's rule engine, too, cuts downwards: it adds a constant to a number and drops the decimals that are left over.
    """
    if number == number.to_integral_value(context=_EXACT):  # also keeps 1E+999999999 from being written out
        return number
    return number.quantize(_STEP, ROUND_FLOOR, _EXACT)


def decimal_of(literal: str) -> Decimal | None:
    """The number that the literal is, if it is one."""
    if literal[0] not in "-0123456789":
        return None
    try:
        return Decimal(literal)
    except InvalidOperation:
        return None


def fold(text: str) -> str:
    """What equals-ignore-case compares."""
    return text.casefold()
