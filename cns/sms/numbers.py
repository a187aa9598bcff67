"""Phone numbers: their form, and those that an account in the SMS sandbox has entered to send to."""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec

from cns.errors import invalid_parameter

_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")


class NumberState(IntEnum):
    PENDING = 0
    VERIFIED = 1


class SandboxNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A destination of an account in the sandbox. The password was sent there, and proves that it was read."""

    account: str
    region: str
    number: str
    state: NumberState = NumberState.PENDING
    version: int = 1
    password: str = ""  # '': spent
    password_expires_ms: int = 0
    failures: int = 0  # of guessing this password


def is_number(text: str) -> bool:
    """In the form of E.164: a plus sign, the country's code, the rest, 15 digits at most."""
    return _NUMBER.fullmatch(text) is not None


def check_number(text: str) -> str:
    if not is_number(text):
        raise invalid_parameter("PhoneNumber Reason: input incorrectly formatted")
    return text
