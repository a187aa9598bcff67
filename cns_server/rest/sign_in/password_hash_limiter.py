"""Bounds what a process spends on hashes of passwords: how many at once, and how many new ones of an account."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from cns_common.aws.auth.passwords import check_password, hash_password
from cns_common.token_bucket import Budget
from cns_server.rest.problems import Problem
from cns_server.rest.sign_in.attempt_limit import AttemptLimit

HASHES_AT_ONCE = 2
"""Each takes a processor and 16 MB for some 0.2 s."""
WAITING_MAX = 50
CHANGES = Budget(burst=10, interval_s=60)
"""New passwords of one account."""
ACCOUNTS_MAX = 10_000
"""Accounts whose changes are remembered while their budgets are not full."""


class PasswordHashLimiter:
    """Turns to hash a password. For one event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(HASHES_AT_ONCE)
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises Problem 503 if too many wait or have one."""
        if self._waiting >= WAITING_MAX:
            raise Problem(503, "ServiceUnavailable", "Too many passwords are checked at this moment. Try again.")
        self._waiting += 1
        try:
            async with self._turns:
                yield
        finally:
            self._waiting -= 1


class NewPasswords:
    """Hashes new passwords of accounts. `now_s` is a monotonic clock, in seconds."""

    def __init__(self, turns: PasswordHashLimiter, now_s: Callable[[], float] = time.monotonic) -> None:
        self._turns = turns
        self._changes = AttemptLimit(CHANGES, ACCOUNTS_MAX, now_s, "Too many new passwords.")

    async def hash(self, account: str, password: str) -> str:
        """Raises RequestError for a text that may not be a password, Problem 429 after too many of the account, and 503
        if too many wait."""
        check_password(password)
        bucket = self._changes.take(account)
        try:
            async with self._turns.turn():
                return await asyncio.to_thread(hash_password, password)
        except Problem:
            bucket.put_back(1)
            raise
