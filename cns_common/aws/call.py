"""One API call after the front door: its caller, region and address."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Via = Literal["aws", "rest", "pages"]
"""The interface by which a call came."""

WhenGone = Callable[[Callable[[], None]], None]
"""Registers a callback for when the caller disconnects; if it has already, the callback runs at once. A second callback
replaces the first."""

Extend = Callable[[float], None]
"""Moves the deadline of the call by so many seconds."""

INTERNAL_ACCOUNT = "cns"
"""The account of CNS itself, which calls CQS and owns queues. No tenant has it: it is not twelve digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The principal that the signature names. `account` is twelve digits, or '' for an anonymous caller."""

    account: str
    arn: str
    user_id: str
    user_name: str = ""  # '' for an account's root
    key_id: str = ""
    service: str = ""  # 'sns.amazonaws.com' when this service itself calls for a topic

    @property
    def anonymous(self) -> bool:
        return not self.account and not self.service

    @property
    def root(self) -> bool:
        return self.arn.endswith(":root")


ANONYMOUS = Caller(account="", arn="", user_id="")


USER_NAME = re.compile("[A-Za-z0-9_+=,.@-]{1,64}")
"""IAM's rule for user names."""


def root_caller(account: str, key_id: str = "") -> Caller:
    """The account's root, which owns the account's own keys."""
    return Caller(account=account, arn=f"arn:aws:iam::{account}:root", user_id=account, key_id=key_id)


def user_caller(account: str, name: str, user_id: str, key_id: str = "") -> Caller:
    """A named user of the account."""
    arn = f"arn:aws:iam::{account}:user/{name}"
    return Caller(account=account, arn=arn, user_id=user_id, user_name=name, key_id=key_id)


@dataclass(slots=True, kw_only=True)
class Call:
    """A request as an operation sees it, besides its parameters."""

    caller: Caller
    region: str
    request_id: str
    base_url: str  # 'http://localhost:6059': the beginning of URLs in answers; no slash at its end
    source_ip: str = ""
    secure: bool = False
    client_subject: str = ""  # of the certificate that TLS verified; RFC 4514
    headers: Mapping[bytes, bytes] = field(default_factory=dict)  # the last of each name, in lower case
    path: str = "/"  # '/<account>/<queue>' addresses a queue in the Query protocol
    trace_header: str = ""
    trace_context: str = ""  # traceparent of what it causes; '' without traces
    policies_enforced: bool = True  # False under --auth=off: policies are stored but not enforced
    facts: Mapping[str, str | list[str]] = field(default_factory=dict)  # more condition keys, such as aws:SourceArn
    when_gone: WhenGone | None = None  # ends a long poll
    extend: Extend | None = None  # for a long poll
    via: Via = "aws"
    changed: bool = True  # an operation sets it to False if it had nothing to do

    @property
    def user_agent(self) -> str:
        return self.headers.get(b"user-agent", b"").decode("latin-1")


Params = dict[str, Any]
Result = dict[str, Any]
Operation = Callable[[Call, Params], Awaitable[Result]]
