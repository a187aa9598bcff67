"""Sign-in with the password of an account's owner: limited by account and address, equally slow for all names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address, ip_network

from cns_common.aws.auth.access_keys import AccessKey
from cns_common.aws.auth.accounts import AccountStore
from cns_common.aws.auth.passwords import verify_password
from cns_common.errors import CnsError
from cns_common.token_bucket import Budget, TokenBucket
from cns_server.rest.authentication import ConsoleCaller, RestAuthenticator
from cns_server.rest.problems import Problem
from cns_server.rest.sign_in.attempt_limit import AttemptLimit
from cns_server.rest.sign_in.password_hash_limiter import PasswordHashLimiter

BY_ADDRESS = Budget(burst=20, interval_s=6)
"""Failed attempts from one address."""
BY_ADDRESS_ON_ACCOUNT = Budget(burst=5, interval_s=30)
"""Failed attempts from one address on one account, by the name that was typed: so the limit does not tell which number
belongs to which name."""
BY_ACCOUNT = Budget(burst=100, interval_s=10)
"""Failed attempts on one account by one of its two names, from all addresses. A guesser who uses it up locks the
password out, so it is large; access keys still work."""
BUCKETS_MAX = 10_000
"""The most names that each budget remembers while they have failed attempts."""
NAME_CHARS_MAX = 64
IPV6_NETWORK_BITS = 64
"""A provider gives one customer a network of this size."""


class ConsoleSignIn:
    """The sign-in of one process. `now_s` is a monotonic clock, in seconds."""

    def __init__(
        self,
        accounts: AccountStore,
        authenticator: RestAuthenticator,
        turns: PasswordHashLimiter,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._accounts = accounts
        self._authenticator = authenticator
        self._by_address = _limit(BY_ADDRESS, now_s)
        self._by_address_on_account = _limit(BY_ADDRESS_ON_ACCOUNT, now_s)
        self._by_account = _limit(BY_ACCOUNT, now_s)
        self._turns = turns

    async def sign_in(self, name: str, password: str, address: str) -> ConsoleCaller:
        """The root of the account with this number or owner's name, and the secret that signs its session.

        Raises Problem: 401 for an unknown name or a wrong password, without telling which; 429 after too many, 503 when
        too many wait. Only 401 counts as an attempt."""
        source = source_of(address)
        name = name if len(name) <= NAME_CHARS_MAX else ""
        typed = name.casefold()
        limits = [
            (self._by_address, source),
            (self._by_address_on_account, f"{source} {typed}"),
            (self._by_account, typed),
        ]
        taken: list[TokenBucket] = []
        try:
            for limit, counted in limits:
                taken.append(limit.take(counted))
            key = await self._verify(name, password)
        except (Problem, CnsError):  # no caller learned whether the password is right
            _put_back(taken)
            raise
        if key is None:
            raise Problem(401, "InvalidPassword", "There is no such account and password.")
        _put_back(taken)
        return await self._authenticator.by_session_key(key)

    async def _verify(self, name: str, password: str) -> AccessKey | None:
        """The key of the account's sessions. The store is asked within the turn, so that guesses cannot load it."""
        async with self._turns.turn():
            login = await self._accounts.login(name) if name else None
            stored = "" if login is None else login.password
            is_right = await asyncio.to_thread(verify_password, password, stored)
        return login.key if login is not None and is_right else None


def _limit(budget: Budget, now_s: Callable[[], float]) -> AttemptLimit:
    return AttemptLimit(budget, BUCKETS_MAX, now_s, "Too many attempts failed.")


def _put_back(taken: Iterable[TokenBucket]) -> None:
    for bucket in taken:
        bucket.put_back(1)


def source_of(address: str) -> str:
    """The source whose attempts share a budget: an IPv4 address, or the network of an IPv6 address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, IPV6_NETWORK_BITS), strict=False))
    return str(parsed)
