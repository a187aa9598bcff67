"""New passwords over REST: how many of an account, and that hashes take the turns of the sign-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_server.rest.accounts import AccountRoutes
from cns_server.rest.models import AccountChange
from cns_server.rest.problems import Problem
from cns_server.rest.sign_in import password_hash_limiter
from cns_server.rest.sign_in.password_hash_limiter import (
    CHANGES,
    HASHES_AT_ONCE,
    WAITING_MAX,
    NewPasswords,
    PasswordHashLimiter,
)

ACCOUNT, OTHER = "111111111111", "222222222222"
GOOD = "a good password"


class Calls:
    def check_administrator(self, rest: object, account: str) -> None:
        pass

    async def act(self, rest: object, action: str, work: Awaitable[object], target: str, detail: str) -> object:
        return await work


class Accounts:
    def __init__(self) -> None:
        self.written: list[str] = []

    async def set_owner_name(self, account: str, name: str) -> None:
        self.written.append(f"{account} {name}")

    async def set_password(self, account: str, password_hash: str, now_ms: int) -> None:
        self.written.append(f"{account} {password_hash}")


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 50.0
        self.accounts = Accounts()
        self.turns = PasswordHashLimiter()
        calls: Any = Calls()  # has the methods that the pages use
        accounts: Any = self.accounts
        removal: Any = None
        passwords = NewPasswords(self.turns, lambda: self.now_s)
        self.routes = AccountRoutes(calls, accounts, removal, passwords, Clock())
        monkeypatch.setattr(password_hash_limiter, "hash_password", lambda password: f"hash of {password}")

    async def change(self, account: str, password: str | None = GOOD, name: str | None = None) -> int:
        rest: Any = None
        try:
            await self.routes.change_account(rest, account, AccountChange(name=name, password=password))
        except Problem as problem:
            return problem.status
        return 204


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


async def test_an_account_has_a_budget_of_new_passwords(rig: Rig) -> None:
    with pytest.raises(RequestError):
        await rig.change(ACCOUNT, "short")
    assert [await rig.change(ACCOUNT) for _ in range(CHANGES.burst + 2)] == [204] * CHANGES.burst + [429] * 2
    written = len(rig.accounts.written)
    assert await rig.change(ACCOUNT, name="Ada") == 429
    assert len(rig.accounts.written) == written, "a password that is refused changes nothing"
    assert [await rig.change(ACCOUNT, "", "Ada"), await rig.change(OTHER)] == [204, 204]
    assert rig.accounts.written[-3:] == [f"{ACCOUNT} Ada", f"{ACCOUNT} ", f"{OTHER} hash of {GOOD}"]
    rig.now_s += CHANGES.interval_s
    assert [await rig.change(ACCOUNT) for _ in range(2)] == [204, 429]


async def test_few_hashes_at_once_with_those_of_sign_ins(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    running, going_on, most = 0, asyncio.Event(), 0

    async def slow(_: object, password: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await going_on.wait()
        running -= 1
        return "hash"

    monkeypatch.setattr("asyncio.to_thread", slow)
    async with rig.turns.turn():  # the turn of a sign-in
        changes = [asyncio.create_task(rig.change(f"{n:012}")) for n in range(WAITING_MAX + 1)]
        for _ in range(10):
            await asyncio.sleep(0)
        going_on.set()
        answers = await asyncio.gather(*changes)
    assert (most, answers.count(204), answers.count(503)) == (HASHES_AT_ONCE - 1, WAITING_MAX - 1, 2)
