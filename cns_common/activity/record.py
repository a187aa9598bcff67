"""One administrative act, as its line in the log has it. No secret and no value of an attribute is in it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from cns_common.errors import OutcomeUnknown, RequestError, StoreFull, StoreUnavailable

OK: Final = "ok"
UNKNOWN: Final = "OutcomeUnknown"
"""The result of an act of which it is not known whether it was done."""
TEXT_BYTES_MAX = 500
"""The size of a target or detail that a caller chose. It is counted in JSON, where one character may take six bytes."""

Face = Literal["aws", "rest", "pages", "portal", "command"]


class Actor(NamedTuple):
    """The caller of an act, and where the call came from: those fields of the record."""

    via: Face
    account: str = ""
    principal: str = ""
    key_id: str = ""
    address: str = ""
    request_id: str = ""


class AdministrativeAct(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="act.done"
):
    at_ms: int  # when its result was known
    action: str  # sqs:CreateQueue, cns:SignIn
    target: str = ""  # as the caller named it: a name, URL or ARN, at most TEXT_BYTES_MAX
    detail: str = ""  # the names of attributes, a protocol; never their values
    account: str = ""  # the caller's; empty: an operator, or a caller without credentials
    principal: str = ""  # ARN; cns:operator; cns:portal/LINK; user@host of a command
    key_id: str = ""
    address: str = ""  # IP address of the caller; empty for a command
    via: Face
    result: str  # OK, UNKNOWN, or the code of the error
    unchanged: bool = False  # everything was as the caller wants it: nothing was done
    request_id: str = ""


def code_of(error: BaseException) -> str:
    """The code of an error as callers know it."""
    match error:
        case RequestError(code=code):
            return code
        case OutcomeUnknown():
            return UNKNOWN
        case StoreFull() | StoreUnavailable():
            return "ServiceUnavailable"
        case _:
            return str(getattr(error, "code", "")) or type(error).__name__


def short(text: str) -> str:
    """A text chosen by a caller, cut to the length that a record may have."""
    text = text[:TEXT_BYTES_MAX].encode(errors="replace").decode()
    size_bytes = 0
    for at, character in enumerate(text):
        size_bytes += len(msgspec.json.encode(character)) - 2  # without the quotes
        if size_bytes > TEXT_BYTES_MAX:
            return text[:at]
    return text
