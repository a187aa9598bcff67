"""The Principal and NotPrincipal elements of a policy statement."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from cns_common.arn import ACCOUNT_ID
from cns_common.aws.call import Caller
from cns_common.aws.policy.parser import SHARED_MAX, PolicyError, string_list

_IDENTITY = re.compile(r"arn:aws[a-z-]*:(?:iam|sts)::([0-9]{12}):([^*?]+)")
_KINDS = frozenset({"AWS", "Service", "Federated", "CanonicalUser"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Principals:
    """The principals of one element. Federated and canonical users match no caller: this service has neither."""

    everyone: bool
    accounts: frozenset[str]
    arns: frozenset[str]
    services: frozenset[str]
    count: int  # as written, for quotas

    def includes(self, caller: Caller) -> bool:
        """Whether Principal names the caller. A whole account includes all of its identities."""
        if self.everyone:
            return True
        if caller.service:
            return caller.service in self.services
        return caller.account in self.accounts or caller.arn in self.arns

    def exempts(self, caller: Caller) -> bool:
        """Whether NotPrincipal names the caller: the account and, unless it is its root, the identity, too."""
        if self.everyone:
            return True
        if caller.service:
            return caller.service in self.services
        return caller.account in self.accounts and (caller.root or caller.arn in self.arns)


def principals(element: object, name: str) -> Principals:
    """Read a Principal or NotPrincipal element. `"*"` means everyone, unsigned callers included. Raises PolicyError."""
    if element == "*":
        element = {"AWS": "*"}
    if not isinstance(element, dict) or not element or not element.keys() <= _KINDS:
        raise PolicyError(f'{name} must be "*" or name AWS or Service principals')
    listed = {kind: string_list(texts, f"{name} {kind}") for kind, texts in element.items()}
    count = sum(map(len, listed.values()))
    return _principals(tuple(listed.get("AWS", ())), tuple(listed.get("Service", ())), count)


@lru_cache(SHARED_MAX)
def _principals(identities: tuple[str, ...], services: tuple[str, ...], count: int) -> Principals:
    accounts: set[str] = set()
    arns: set[str] = set()
    for text in identities:
        if text == "*":
            continue
        account = _account(text)
        if account:
            accounts.add(account)
        else:
            arns.add(text)
    return Principals(
        everyone="*" in identities,
        accounts=frozenset(accounts),
        arns=frozenset(arns),
        services=frozenset(services),
        count=count,
    )


def _account(text: str) -> str:
    """The account that a principal names as a whole; empty when it names a single identity."""
    if ACCOUNT_ID.fullmatch(text):
        return text
    match = _IDENTITY.fullmatch(text)
    if match is None:
        raise PolicyError(f"Invalid principal in policy: {text}")
    return match[1] if match[2] == "root" else ""
