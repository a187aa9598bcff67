"""Write the values of policies and messages as literals (see `cns.filters.model`)."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_FLOOR, Context, Decimal, InvalidOperation

STRING_MARK = '"'
NULL, TRUE, FALSE = "null", "true", "false"
DECIMALS_MAX = 5
"""AWS compares numbers in filters to five decimals."""

_PLAIN_DIGITS_MAX = 30
_PLAIN_CHARS_MAX = 16
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_STEP = Decimal(1).scaleb(-DECIMALS_MAX)


def of_string(text: str) -> str:
    return STRING_MARK + text


def of_number(spelling: str) -> str:
    """The literal of a JSON number. One that Decimal cannot hold (1e99999999999999999999) is its own literal."""
    if spelling.isdecimal() and len(spelling) <= _PLAIN_CHARS_MAX:
        return spelling
    try:
        number = Decimal(spelling)
    except InvalidOperation:
        return spelling
    if len(spelling) - spelling.find(".") > DECIMALS_MAX + 1 or "e" in spelling or "E" in spelling:
        number = round_down(number)
    return _shortest(number)


def of_decimal(number: Decimal) -> str:
    """The literal of a number, cut to five decimals."""
    return _shortest(round_down(number))


def _shortest(number: Decimal) -> str:
    if not number:
        return "0"
    reduced = number.normalize(_EXACT)
    return f"{reduced:f}" if 0 <= reduced.adjusted() < _PLAIN_DIGITS_MAX else str(reduced)


def round_down(number: Decimal) -> Decimal:
    """Round down to five decimals, as AWS's rule engine does: it adds a constant and drops further decimals."""
    if number == number.to_integral_value(context=_EXACT):  # quantize would write out all digits of 1E+999999999
        return number
    return number.quantize(_STEP, ROUND_FLOOR, _EXACT)


def decimal_of(literal: str) -> Decimal | None:
    """The number of a literal, or None if it is no number."""
    if literal[0] not in "-0123456789":
        return None
    try:
        return Decimal(literal)
    except InvalidOperation:
        return None


def fold(text: str) -> str:
    """The form in which equals-ignore-case compares texts."""
    return text.casefold()
