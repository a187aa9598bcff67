"""The syntax of phone numbers, and the record of a number in the SMS sandbox."""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec

from cns.errors import invalid_parameter
from cns_common.store_keys import Key

_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")


class NumberState(IntEnum):
    PENDING = 0
    VERIFIED = 1


class SandboxNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A destination of an account in the sandbox. The one-time password was sent to the number, to verify it."""

    account: Key
    region: Key
    number: Key
    state: NumberState = NumberState.PENDING
    version: int = 1
    password: str = ""  # '': used, or spent by wrong guesses
    password_expires_ms: int = 0
    failures: int = 0  # wrong guesses of this password


def is_number(text: str) -> bool:
    """Whether the text is in E.164 form: a plus sign, a country code and the rest, at most 15 digits."""
    return _NUMBER.fullmatch(text) is not None


def check_number(text: str) -> str:
    if not is_number(text):
        raise invalid_parameter("PhoneNumber Reason: input incorrectly formatted")
    return text
