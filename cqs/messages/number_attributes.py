"""How SQS stores the value of a Number attribute: a plain decimal, without exponent, sign of plus or idle zeros.

The arithmetic is on text: a value may have far more digits than any number type holds, and only needs to be judged.
"""

from __future__ import annotations

import re

from cns_common.errors import RequestError
from cqs.limits import NUMBER_DIGITS_MAX, NUMBER_EXPONENT_MAX, NUMBER_EXPONENT_MIN

_NUMBER = re.compile(r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,9}))?\Z", re.ASCII)


def normalize_number(name: str, text: str) -> str:
    """`text` as it is given back to receivers; `name` is the attribute's, for the error."""
    match = _NUMBER.match(text)
    if match is None:
        raise RequestError(
            "InvalidParameterValue", f"Can't cast the value of message (user) attribute '{name}' to a number."
        )
    sign, whole, fraction, bare_fraction, exponent = match.groups(default="")
    fraction = fraction or bare_fraction
    digits = (whole + fraction).lstrip("0")
    scale = len(fraction) - int(exponent or 0)  # the value is digits / 10 ** scale
    if not NUMBER_EXPONENT_MIN <= max(len(digits), 1) - 1 - scale <= NUMBER_EXPONENT_MAX:
        raise RequestError(
            "InvalidParameterValue",
            f"Message (user) attribute '{name}' number value [{text}] must be between 10^-128 and 10^126.",
        )
    significant = digits.rstrip("0")
    if len(significant) > NUMBER_DIGITS_MAX:
        raise RequestError(
            "InvalidParameterValue",
            f"Message (user) attribute '{name}' number value [{text}] must contain fewer than 38 precision digits.",
        )
    if not significant:
        return "0"
    plain = _plain(significant, scale - (len(digits) - len(significant)))
    return f"-{plain}" if sign == "-" else plain


def _plain(digits: str, scale: int) -> str:
    if scale <= 0:
        return digits + "0" * -scale
    digits = digits.rjust(scale + 1, "0")
    return f"{digits[:-scale]}.{digits[-scale:]}"
