"""One administrative act, as its line in the log has it. No secret and no value of an attribute is in it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from cns_common.errors import OutcomeUnknown, RequestError, StoreFull, StoreUnavailable

OK: Final = "ok"
TEXT_CHARS_MAX = 500
"""Of a target or detail that a caller chose."""

Face = Literal["aws", "rest", "pages", "portal", "command"]


class Actor(NamedTuple):
    """Who acts, and from where: the fields of a record that an act's caller has."""

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
    target: str = ""  # as the caller named it: a name, URL or ARN, at most TEXT_CHARS_MAX
    detail: str = ""  # the names of attributes, a protocol; never their values
    account: str = ""  # the caller's; empty: an operator, or a caller without credentials
    principal: str = ""  # ARN; cns:operator; cns:portal/LINK; user@host of a command
    key_id: str = ""
    address: str = ""  # IP address of the caller; empty for a command
    via: Face
    result: str  # OK, or the code of the error
    request_id: str = ""


def code_of(error: BaseException) -> str:
    """The code of an error as callers know it."""
    match error:
        case RequestError(code=code):
            return code
        case OutcomeUnknown():
            return "OutcomeUnknown"
        case StoreFull() | StoreUnavailable():
            return "ServiceUnavailable"
        case _:
            return str(getattr(error, "code", "")) or type(error).__name__


def short(text: str) -> str:
    """A text that a caller chose, as a record has it."""
    return text.encode(errors="replace").decode()[:TEXT_CHARS_MAX]
