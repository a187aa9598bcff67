"""The contract of the account stores about named users, for every driver."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from cns_backend import schema
from cns_common.aws.auth import users
from cns_common.aws.auth.accounts import AccessKey, AccountStore
from cns_common.aws.auth.accounts_cassandra import CassandraAccountStore
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.errors import OutcomeUnknown, RequestError, StartError, StoreFull
from cns_common.sealing import Seal
from cns_common.sqlite.database import STORE_FILE
from lab.harness.keyspace import keyspace
from tests.integration.sns.stores.account_stores import SEAL, embedded


async def active_keys(accounts: AccountStore) -> set[str]:
    """The ids of active keys."""
    return {key.key_id for key in await accounts.keys()}


async def refused(work: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(RequestError) as refusal:
        await work
    return refusal.value.code, refusal.value.message


async def test_a_users_life(accounts: AccountStore) -> None:
    root = await accounts.create(1)
    account = root.account
    changes: list[str] = []
    accounts.changed.append(changes.append)
    first = await accounts.add_user(account, "alice", 2)
    assert (first.account, first.user, first.created_ms) == (account, "alice", 2)
    assert re.fullmatch("AKIA[A-Z2-7]{16}", first.key_id)
    assert re.fullmatch("AIDA[A-Z2-7]{17}", first.user_id)
    assert sorted(await accounts.keys(), key=lambda key: key.created_ms) == [root, first]

    second = await accounts.add_user_key(account, "alice", 3)
    assert (second.user, second.user_id) == ("alice", first.user_id)
    assert await active_keys(accounts) == {root.key_id, first.key_id, second.key_id}
    await accounts.set_user_key_active(account, "alice", first.key_id, False)
    assert await active_keys(accounts) == {root.key_id, second.key_id}
    await accounts.set_user_key_active(account, "alice", first.key_id, True)
    assert await active_keys(accounts) == {root.key_id, first.key_id, second.key_id}
    await accounts.delete_user_key(account, "alice", first.key_id)
    assert await active_keys(accounts) == {root.key_id, second.key_id}

    await accounts.set_user_active(account, "alice", False)
    assert await active_keys(accounts) == {root.key_id}
    (shown,) = await accounts.users(account)
    assert (shown.name, shown.user_id, shown.created_ms, shown.active) == ("alice", first.user_id, 2, False)
    assert [(key.key_id, key.created_ms, key.active) for key in shown.keys] == [(second.key_id, 3, True)]
    await accounts.set_user_active(account, "alice", True)
    assert await active_keys(accounts) == {root.key_id, second.key_id}

    await accounts.delete_user(account, "alice")
    assert await active_keys(accounts) == {root.key_id}
    assert await accounts.users(account) == []
    assert changes == [account] * 8
    again = await accounts.add_user(account, "alice", 4)
    assert again.user_id != first.user_id


async def test_on_a_full_disk_keys_are_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with embedded(tmp_path) as (accounts, _):
        account = (await accounts.create(1)).account
        for name in ("alice", "bob"):
            await accounts.add_user(account, name, 2)
        await accounts.set_password(account, "hash", 2)
        space = accounts._database.space  # type: ignore[attr-defined]  # the embedded store
        monkeypatch.setattr(space, "_free_bytes", lambda _: 0)
        space.mark_full()
        with pytest.raises(StoreFull):
            await accounts.add_user(account, "carol", 3)
        await accounts.set_user_active(account, "alice", False)
        await accounts.delete_user(account, "bob")
        await accounts.set_password(account, "", 3)
        renewed = await accounts.rotate(account, 3)
        assert await active_keys(accounts) == {renewed.key_id}
        await accounts.delete(account)
        assert await active_keys(accounts) == set()


async def test_rotating_the_root_key_keeps_the_keys_of_users(accounts: AccountStore) -> None:
    root = await accounts.create(1)
    user = await accounts.add_user(root.account, "alice", 2)
    renewed = await accounts.rotate(root.account, 3)
    assert await active_keys(accounts) == {renewed.key_id, user.key_id}
    (listed,) = await accounts.accounts()
    assert listed.key_ids == (renewed.key_id,)


async def test_users_belong_to_one_account(accounts: AccountStore) -> None:
    one, other = (await accounts.create(1)).account, (await accounts.create(2)).account
    mine, theirs = await accounts.add_user(one, "alice", 3), await accounts.add_user(other, "alice", 4)
    await accounts.add_user(one, "Bob", 5)
    assert mine.user_id != theirs.user_id
    assert [user.name for user in await accounts.users(one)] == ["alice", "Bob"]
    await accounts.delete_user(other, "alice")
    assert [user.name for user in await accounts.users(one)] == ["alice", "Bob"]
    assert mine in await accounts.keys()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a*", "n" * 65, "a\n"])
async def test_invalid_names(accounts: AccountStore, name: str) -> None:
    account = (await accounts.create(1)).account
    code, text = await refused(accounts.add_user(account, name, 2))
    assert code == "ValidationError"
    assert "1 to 64" in text
    assert await accounts.users(account) == []


async def test_refused_changes(accounts: AccountStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "USERS_MAX", 2)
    account = (await accounts.create(1)).account
    key = await accounts.add_user(account, "n" * 64, 2)
    await accounts.add_user(account, "a_+=,.@-Z9", 2)
    assert await refused(accounts.add_user(account, "third", 3)) == (
        "LimitExceeded",
        f"account {account} has 2 users, as many as it may",
    )
    await accounts.delete_user(account, "n" * 64)
    assert await refused(accounts.add_user(account, "A_+=,.@-z9", 3)) == (
        "EntityAlreadyExists",
        f"account {account} has a user A_+=,.@-z9 already",
    )
    await accounts.add_user_key(account, "a_+=,.@-Z9", 3)
    assert await refused(accounts.add_user_key(account, "a_+=,.@-Z9", 4)) == (
        "LimitExceeded",
        "user a_+=,.@-Z9 has 2 keys, as many as it may",
    )
    gone: list[Callable[[], Awaitable[object]]] = [
        lambda: accounts.add_user_key(account, "bob", 5),
        lambda: accounts.set_user_active(account, "bob", False),
        lambda: accounts.set_user_key_active(account, "bob", key.key_id, False),
        lambda: accounts.delete_user_key(account, "bob", key.key_id),
        lambda: accounts.delete_user(account, "bob"),
    ]
    for work in gone:
        assert await refused(work()) == ("NoSuchEntity", f"account {account} has no user bob")
    for keyless in (
        accounts.set_user_key_active(account, "a_+=,.@-Z9", key.key_id, False),
        accounts.delete_user_key(account, "a_+=,.@-Z9", key.key_id),
    ):
        assert await refused(keyless) == ("NoSuchEntity", f"user a_+=,.@-Z9 has no key {key.key_id}")
    await accounts.internal_key(1)
    for absent in ("000000000001", INTERNAL_ACCOUNT):
        expected = ("NoSuchAccount", f"there is no account {absent}")
        assert await refused(accounts.users(absent)) == expected
        assert await refused(accounts.add_user(absent, "bob", 5)) == expected
        assert await refused(accounts.delete_user(absent, "bob")) == expected


async def test_concurrent_changes_are_both_made(accounts: AccountStore) -> None:
    account = (await accounts.create(1)).account
    first = await accounts.add_user(account, "alice", 2)
    second, _ = await asyncio.gather(
        accounts.add_user_key(account, "alice", 3),
        accounts.set_user_key_active(account, "alice", first.key_id, False),
    )
    assert {key.key_id for key in await accounts.keys() if key.user} == {second.key_id}
    created = await asyncio.gather(
        *[accounts.add_user(account, name, 4) for name in ("bob", "BOB", "Bob")], return_exceptions=True
    )
    assert sum(isinstance(each, AccessKey) for each in created) == 1


# -- older stores -----------------------------------------------------------------------------------------------------


async def test_an_older_directory_keeps_its_accounts(tmp_path: Path) -> None:
    async with embedded(tmp_path) as (store, _):
        root = await store.create(1)
    connection = apsw.Connection(str(tmp_path / STORE_FILE))
    connection.execute("DROP TABLE account_users")
    connection.close()
    async with embedded(tmp_path) as (store, _):
        assert await store.keys() == [root]
        user = await store.add_user(root.account, "alice", 2)
    async with embedded(tmp_path) as (store, _):
        assert await store.keys() == [root, user]


async def test_secrets_of_users_are_sealed(tmp_path: Path) -> None:
    async with embedded(tmp_path) as (store, _):
        user = await store.add_user((await store.create(1)).account, "alice", 2)
    assert all(user.secret.encode() not in path.read_bytes() for path in tmp_path.glob("store.db*"))
    async with embedded(tmp_path, Seal(b"x" * 32)) as (store, _):
        with pytest.raises(StartError, match="master key"):
            await store.keys()


@pytest.mark.extended
async def test_an_older_keyspace_keeps_its_accounts(cassandra_address: CassandraAddress) -> None:
    with keyspace() as place:
        cassandra = await Cassandra.open(place)
        root = await CassandraAccountStore(cassandra, SEAL).create(1)
        await cassandra.run_schema("DROP TABLE account_users")
        assert await schema.missing(cassandra, place.keyspace) == ["table account_users"]
        await schema.apply(place, 1)
        await cassandra.close()
        cassandra = await Cassandra.open(place)
        store = CassandraAccountStore(cassandra, SEAL)
        assert await store.keys() == [root]
        user = await store.add_user(root.account, "alice", 2)
        assert await store.keys() == [root, user]
        await cassandra.close()


async def test_more_users_than_a_page(cassandra: Cassandra, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cns_common.aws.auth.accounts_cassandra.PAGE_ROWS", 2)
    store = CassandraAccountStore(cassandra, SEAL)
    accounts = [(await store.create(1)).account for _ in range(2)]
    names = [f"u{number}" for number in range(5)]
    for account in accounts:
        for name in names:
            await store.add_user(account, name, 2)
    for account in accounts:
        assert [user.name for user in await store.users(account)] == names
    assert sorted(key.user for key in await store.keys() if key.user) == sorted(names * 2)


async def test_a_change_with_a_lost_answer_is_made_once(cassandra: Cassandra, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CassandraAccountStore(cassandra, SEAL)
    account = (await store.create(1)).account
    applied, lost = cassandra.run_conditional, list[bool]()

    async def lose_first_answer(*arguments: object) -> bool:
        done: bool = await applied(*arguments)  # type: ignore[arg-type]  # passed on as they are
        if not lost:
            lost.append(done)
            raise OutcomeUnknown("lost")
        return done

    for work in (
        lambda: store.add_user(account, "alice", 2),
        lambda: store.add_user_key(account, "alice", 3),
        lambda: store.delete_user(account, "alice"),
    ):
        lost.clear()
        monkeypatch.setattr(cassandra, "run_conditional", lose_first_answer)
        await work()
        assert lost == [True]
    assert await store.users(account) == []
