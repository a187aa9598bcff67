"""Who a policy statement speaks of: its Principal or NotPrincipal element."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from cns_common.aws.call import Caller
from cns_common.aws.policy.parser import SHARED_MAX, PolicyError, string_list

_ACCOUNT = re.compile(r"[0-9]{12}")
_IDENTITY = re.compile(r"arn:aws[a-z-]*:(?:iam|sts)::([0-9]{12}):([^*?]+)")
_KINDS = frozenset({"AWS", "Service", "Federated", "CanonicalUser"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Principals:
    """Federated and canonical users are read and never met: this service has neither."""

    everyone: bool
    accounts: frozenset[str]
    arns: frozenset[str]
    services: frozenset[str]
    count: int  # as written, for the services' quotas

    def include(self, caller: Caller) -> bool:
        """A principal that is a whole account includes every identity of the account."""
        if self.everyone:
            return True
        if caller.service:
            return caller.service in self.services
        return caller.account in self.accounts or caller.arn in self.arns

    def spare(self, caller: Caller) -> bool:
        """NotPrincipal spares an identity only if it names the identity and its account; a root is its account."""
        if self.everyone:
            return True
        if caller.service:
            return caller.service in self.services
        return caller.account in self.accounts and (caller.root or caller.arn in self.arns)


def principals(element: object, name: str) -> Principals:
    """The principals of a Principal or NotPrincipal element, `"*"` being everyone, unsigned callers too."""
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
    """The account that a principal stands for as a whole; empty for a single identity of one."""
    if _ACCOUNT.fullmatch(text):
        return text
    match = _IDENTITY.fullmatch(text)
    if match is None:
        raise PolicyError(f"Invalid principal in policy: {text}")
    return match[1] if match[2] == "root" else ""
