"""Sign-in by password: how many attempts fail before others are refused, and what unknown names learn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.auth.owners import ConsoleLogin
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cns_server.rest.authentication import RestAuthenticator
from cns_server.rest.problems import Problem
from cns_server.rest.sign_in import console_sign_in, password_hash_limiter
from cns_server.rest.sign_in.console_sign_in import (
    BY_ACCOUNT,
    BY_ADDRESS,
    BY_ADDRESS_ON_ACCOUNT,
    ConsoleSignIn,
    source_of,
)
from cns_server.rest.sign_in.password_hash_limiter import HASHES_AT_ONCE, WAITING_MAX, PasswordHashLimiter

ACCOUNT, OTHER = "111111111111", "222222222222"
SECRET = "s" * 64
HERE = "192.0.2.1"


class Now:
    s = 50.0

    def __call__(self) -> float:
        return self.s


class Accounts:
    """Two accounts with a password each, whose hash is the password here."""

    def __init__(self) -> None:
        self.secret = SECRET

        self.asked: list[str] = []
        self.fails = False

    async def login(self, name: str) -> ConsoleLogin | None:
        self.asked.append(name)
        if self.fails:
            raise StoreUnavailable("down")
        account = {"ada": ACCOUNT, ACCOUNT: ACCOUNT, OTHER: OTHER}.get(name.casefold())
        return None if account is None else ConsoleLogin(account, f"password of {account}", self.key(account))

    def key(self, account: str) -> AccessKey:
        return AccessKey(account, f"CONSOLE{account}{self.secret[0]}", self.secret, 1)


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = Now()
        self.accounts = Accounts()
        self.verified: list[str] = []
        self.learned = 0
        self.ring = KeyRing(self.keys())
        authenticator = Authenticator(
            self.ring, Clock(), enforced=True, region="us-east-1", account_id=ACCOUNT, learn_keys=self.learn
        )
        rest = RestAuthenticator(authenticator, Clock(), region="us-east-1", operator_key=b"k")
        store: Any = self.accounts  # has the methods that the page uses
        self.sign_ins = ConsoleSignIn(store, rest, PasswordHashLimiter(), self.now)
        monkeypatch.setattr(console_sign_in, "verify_password", self.verify)

    def keys(self) -> list[AccessKey]:
        return [self.accounts.key(account) for account in (ACCOUNT, OTHER)]

    async def learn(self) -> bool:
        self.learned += 1
        self.ring.replace(self.keys())
        return True

    def verify(self, password: str, stored: str) -> bool:
        self.verified.append(stored)
        return bool(stored) and password == stored

    async def attempt(self, name: str, password: str = "wrong", address: str = HERE) -> int | str:
        """The status of the refusal, or the account."""
        try:
            return (await self.sign_ins.sign_in(name, password, address)).caller.account
        except Problem as problem:
            return problem.status


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


async def test_by_number_and_by_name(rig: Rig) -> None:
    for name in (ACCOUNT, "Ada", "ada"):
        assert await rig.attempt(name, f"password of {ACCOUNT}") == ACCOUNT
    assert await rig.attempt(OTHER, f"password of {ACCOUNT}") == 401


@pytest.mark.parametrize("name", [ACCOUNT, "nobody", "x" * 1_000])
async def test_attempts_on_one_account_are_few_whether_or_not_it_exists(rig: Rig, name: str) -> None:
    answers = [await rig.attempt(name) for _ in range(BY_ADDRESS_ON_ACCOUNT.burst + 3)]
    assert answers == [401] * BY_ADDRESS_ON_ACCOUNT.burst + [429] * 3
    assert len(rig.verified) == BY_ADDRESS_ON_ACCOUNT.burst, "an unknown name is verified, too"
    assert await rig.attempt(name, f"password of {ACCOUNT}") == 429
    rig.now.s += BY_ADDRESS_ON_ACCOUNT.interval_s
    assert [await rig.attempt(name) for _ in range(2)] == [401, 429]


async def test_the_limit_does_not_tell_which_number_a_name_has(rig: Rig) -> None:
    answers = [await rig.attempt("Ada" if n % 2 else "ada") for n in range(BY_ADDRESS_ON_ACCOUNT.burst + 1)]
    assert answers[-1] == 429, "case is no difference"
    assert [await rig.attempt(name) for name in ("ada", ACCOUNT, OTHER)] == [429, 401, 401]
    assert rig.accounts.asked.count("ada") + rig.accounts.asked.count("Ada") == BY_ADDRESS_ON_ACCOUNT.burst
    assert await rig.attempt(OTHER, f"password of {OTHER}") == OTHER, "others go on"
    assert await rig.attempt("ada", f"password of {ACCOUNT}", "192.0.2.2") == ACCOUNT, "from elsewhere, too"


async def test_an_address_may_not_try_one_account_after_another(rig: Rig) -> None:
    answers = [await rig.attempt(f"name {n}") for n in range(BY_ADDRESS.burst + 1)]
    assert answers == [401] * BY_ADDRESS.burst + [429]
    assert await rig.attempt("name x", address="192.0.2.2") == 401


async def test_many_addresses_may_not_try_one_account(rig: Rig) -> None:
    answers = [await rig.attempt(ACCOUNT, address=f"192.0.2.{n}") for n in range(BY_ACCOUNT.burst + 1)]
    assert answers == [401] * BY_ACCOUNT.burst + [429]


async def test_attempts_on_many_names_give_none_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_sign_in, "BUCKETS_MAX", BY_ACCOUNT.burst + 50)
    rig = Rig(monkeypatch)
    for n in range(BY_ACCOUNT.burst):
        assert await rig.attempt(ACCOUNT, address=f"192.0.2.{n}") == 401
    for n in range(300):
        await rig.attempt(f"name {n}", address=f"198.51.{n}.1")
    assert await rig.attempt(ACCOUNT, f"password of {ACCOUNT}", "203.0.113.1") == 429
    rig.now.s += BY_ADDRESS_ON_ACCOUNT.interval_s
    assert await rig.attempt(OTHER, f"password of {OTHER}", "203.0.113.1") == OTHER, "full buckets made room"


async def test_a_sign_in_that_succeeds_uses_nothing_up(rig: Rig) -> None:
    for _ in range(3 * BY_ADDRESS.burst):
        assert await rig.attempt(ACCOUNT, f"password of {ACCOUNT}") == ACCOUNT


async def test_a_session_after_a_change_whose_announcement_is_late(rig: Rig) -> None:
    rig.accounts.secret = "t" * 64
    found = await rig.sign_ins.sign_in(ACCOUNT, f"password of {ACCOUNT}", HERE)
    assert (found.secret, rig.learned) == ("t" * 64, 1)


async def test_an_attempt_that_was_not_judged_uses_nothing_up(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(BY_ACCOUNT.burst):
        await rig.attempt(ACCOUNT, address=f"192.0.2.{n}")
    here = "203.0.113.1"
    assert {await rig.attempt(ACCOUNT, address=here) for _ in range(2 * BY_ADDRESS.burst)} == {429}
    with monkeypatch.context() as full:
        full.setattr(password_hash_limiter, "WAITING_MAX", 0)
        assert {await rig.attempt(OTHER, address=here) for _ in range(2 * BY_ADDRESS.burst)} == {503}
    rig.accounts.fails = True
    with pytest.raises(StoreUnavailable):
        await rig.attempt(OTHER, address=here)
    rig.accounts.fails = False
    answers = [await rig.attempt(f"name {n}", address=here) for n in range(BY_ADDRESS.burst + 1)]
    assert answers == [401] * BY_ADDRESS.burst + [429]


async def test_hashes_take_turns_and_few_wait(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    running, going_on, most = 0, asyncio.Event(), 0

    async def slow(_: object, password: str, stored: str) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await going_on.wait()
        running -= 1
        return False

    monkeypatch.setattr("asyncio.to_thread", slow)
    attempts = [asyncio.create_task(rig.attempt(f"n{n}", address=f"198.51.100.{n}")) for n in range(WAITING_MAX + 2)]
    for _ in range(10):
        await asyncio.sleep(0)
    going_on.set()
    answers = await asyncio.gather(*attempts)
    assert (most, answers.count(401), answers.count(503)) == (HASHES_AT_ONCE, WAITING_MAX, 2)


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_whose_attempts_count_together(address: str, source: str) -> None:
    assert source_of(address) == source
