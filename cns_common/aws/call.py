"""One API call after the front door: who calls, where, and through which address."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

WhenGone = Callable[[Callable[[], None]], None]
"""Asks to be called back as soon as the caller has gone: at once, if he has already. The last to ask is called."""

INTERNAL_ACCOUNT = "cns"
"""CNS itself, as a caller of CQS and the owner of its own queues. It is not twelve digits, so it is no tenant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The principal that the signature named. `account` is twelve digits; an anonymous caller has none."""

    account: str
    arn: str
    user_id: str
    user_name: str = ""  # '' for an account's root
    key_id: str = ""
    service: str = ""  # 'sns.amazonaws.com' when this service itself calls on a topic's behalf

    @property
    def anonymous(self) -> bool:
        return not self.account and not self.service

    @property
    def root(self) -> bool:
        return self.arn.endswith(":root")


ANONYMOUS = Caller(account="", arn="", user_id="")


USER_NAME = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)
"""IAM's rule for names of users."""


def root_caller(account: str, key_id: str = "") -> Caller:
    """The account's root, to which the keys of the account itself belong."""
    return Caller(account=account, arn=f"arn:aws:iam::{account}:root", user_id=account, key_id=key_id)


def user_caller(account: str, name: str, user_id: str, key_id: str = "") -> Caller:
    """A named user of the account."""
    arn = f"arn:aws:iam::{account}:user/{name}"
    return Caller(account=account, arn=arn, user_id=user_id, user_name=name, key_id=key_id)


@dataclass(slots=True, kw_only=True)
class Call:
    """What an operation may know of its request besides its parameters."""

    caller: Caller
    region: str
    request_id: str
    base_url: str  # 'http://localhost:6059', no slash at its end: what URLs handed out begin with
    source_ip: str = ""
    secure: bool = False
    headers: Mapping[bytes, bytes] = field(default_factory=dict)  # the last of each name, in lower case
    path: str = "/"  # '/<account>/<queue>' addresses a queue in the Query protocol
    trace_header: str = ""
    policies_enforced: bool = True  # False under --auth=off: policies are stored, and everything is allowed
    facts: Mapping[str, str | list[str]] = field(default_factory=dict)  # more condition keys, such as aws:SourceArn
    when_gone: WhenGone | None = None  # a poll ends with it

    @property
    def user_agent(self) -> str:
        return self.headers.get(b"user-agent", b"").decode("latin-1")


Params = dict[str, Any]
Result = dict[str, Any]
Operation = Callable[[Call, Params], Awaitable[Result]]
