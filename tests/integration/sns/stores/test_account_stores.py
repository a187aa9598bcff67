"""The contract of the stores of accounts and of the signing key, for every driver."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from cns.stores.cassandra import CassandraSigningKeyStore
from cns_backend import schema
from cns_common.aws.auth.accounts import AccessKey, AccountStore, EmbeddedAccountStore
from cns_common.aws.auth.accounts_cassandra import CassandraAccountStore
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.errors import RequestError, StartError
from cns_common.sealing import Seal
from cns_common.sqlite.database import Database
from lab.harness.keyspace import emptied
from tests.integration.sns.stores.account_stores import SEAL, AccountStores


async def test_accounts_and_their_keys(accounts: AccountStore) -> None:
    changes: list[str] = []
    accounts.changed.append(changes.append)
    second, first = await accounts.create(2), await accounts.create(1)
    assert [(one.account, one.key_ids) for one in await accounts.accounts()] == [
        (first.account, (first.key_id,)),
        (second.account, (second.key_id,)),
    ]
    assert sorted(await accounts.keys(), key=lambda key: key.created_ms) == [first, second]
    assert changes == [second.account, first.account]


async def test_a_rotated_key_replaces_the_old_one(accounts: AccountStore) -> None:
    before = await accounts.create(1)
    after = await accounts.rotate(before.account, 2)
    assert (after.account, after.created_ms) == (before.account, 2)
    assert await accounts.keys() == [after]
    for account in ("000000000001", INTERNAL_ACCOUNT):
        with pytest.raises(RequestError, match="there is no account"):
            await accounts.rotate(account, 3)
    assert await accounts.keys() == [after]


async def test_keys_that_were_given(accounts: AccountStore) -> None:
    first = AccessKey("123456789012", "AKIAFIRST", "secret one", 1)
    await accounts.put_root_key(first)
    await accounts.put_root_key(first)
    second = msgspec.structs.replace(first, key_id="AKIASECOND", created_ms=2)
    await accounts.put_root_key(second)
    assert [(one.account, one.created_ms, one.key_ids) for one in await accounts.accounts()] == [
        ("123456789012", 1, ("AKIASECOND",))
    ]
    given = [AccessKey("", f"AKIAUSER{n}", f"secret {n}", n) for n in (3, 4)]
    made = await accounts.add_user("123456789012", "alice", 9, given[0])
    await accounts.add_user_key("123456789012", "alice", 9, given[1])
    assert (made.account, made.user, made.secret) == ("123456789012", "alice", "secret 3")
    keys = {key.key_id: (key.secret, key.user) for key in await accounts.keys()}
    assert keys == {
        "AKIASECOND": ("secret one", ""),
        "AKIAUSER3": ("secret 3", "alice"),
        "AKIAUSER4": ("secret 4", "alice"),
    }


async def test_processes_that_start_at_once_give_the_same_keys(accounts: AccountStore) -> None:
    account = (await accounts.create(1)).account
    one, other = [AccessKey("", f"AKIAUSER{n}", f"secret {n}", n) for n in (3, 4)]
    await asyncio.gather(*[accounts.add_user(account, "alice", 9, one) for _ in range(3)])
    await asyncio.gather(*[accounts.add_user_key(account, "alice", 9, other) for _ in range(3)])
    assert [[key.key_id for key in user.keys] for user in await accounts.users(account)] == [["AKIAUSER3", "AKIAUSER4"]]
    with pytest.raises(RequestError, match="has 2 keys"):
        await accounts.add_user(account, "alice", 9, msgspec.structs.replace(one, key_id="AKIATHIRD"))


async def test_sessions_that_ended(accounts: AccountStore) -> None:
    await accounts.end_session("first", 2_000, 1_000)
    await accounts.end_session("second", 9_000, 2_000)
    assert await accounts.has_ended("second")
    assert not await accounts.has_ended("third")
    await accounts.end_session("second", 9_000, 3_000)  # again
    assert await accounts.has_ended("second")


async def test_an_owner_has_a_name_that_no_other_has(accounts: AccountStore) -> None:
    first, second = [(await accounts.create(ms)).account for ms in (1, 2)]
    await accounts.set_owner_name(first, "Ada Lovelace")
    with pytest.raises(RequestError, match="another account has"):
        await accounts.set_owner_name(second, "ada lovelace")
    await accounts.set_owner_name(first, "ADA LOVELACE")
    assert [(one.account, one.name, one.has_password) for one in await accounts.accounts()] == [
        (first, "ADA LOVELACE", False),
        (second, "", False),
    ]
    await accounts.set_owner_name(first, "")
    await accounts.set_owner_name(second, "Ada Lovelace")
    for name in ("1" * 12, " a", "a ", "a\nb", "x" * 65):
        with pytest.raises(RequestError, match="An owner's name is"):
            await accounts.set_owner_name(first, name)
    for account in ("000000000001", INTERNAL_ACCOUNT):
        with pytest.raises(RequestError, match="there is no account"):
            await accounts.set_owner_name(account, "Nobody")


async def test_a_password_has_a_key_that_signs_sessions_until_it_changes(accounts: AccountStore) -> None:
    root = await accounts.create(1)
    assert await accounts.login(root.account) is None
    changes: list[str] = []
    accounts.changed.append(changes.append)
    await accounts.set_password(root.account, "scrypt$hash", 2)
    assert changes == [root.account], "so that all processes read the keys"
    await accounts.set_owner_name(root.account, "Ada")
    logins = [await accounts.login(name) for name in (root.account, "Ada", "ada")]
    login = logins[0]
    assert login is not None and (login.account, login.password) == (root.account, "scrypt$hash")
    assert logins == [login] * 3
    (console,) = [key for key in await accounts.keys() if key != root]
    assert (console, console.created_ms) == (login.key, 2)
    assert console.key_id.startswith(f"CONSOLE{root.account}")
    assert [(one.name, one.has_password, one.key_ids) for one in await accounts.accounts()] == [
        ("Ada", True, (root.key_id,))
    ]
    await accounts.set_password(root.account, "scrypt$other", 3)
    (other,) = [key for key in await accounts.keys() if key != root]
    assert other.secret != console.secret and other.key_id != console.key_id
    await accounts.set_password(root.account, "", 4)
    assert await accounts.keys() == [root]
    login = await accounts.login("Ada")
    assert login is not None and (login.password, login.key) == ("", None)
    with pytest.raises(RequestError, match="there is no account"):
        await accounts.set_password("000000000001", "scrypt$hash", 5)


async def test_an_owner_is_found_without_reading_others(
    accounts: AccountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, other, nameless = [(await accounts.create(1)).account for _ in range(3)]
    await accounts.set_password(account, "scrypt$hash", 2)
    await accounts.set_owner_name(other, "Grace")

    async def owners() -> None:
        raise AssertionError("all owners are read")

    monkeypatch.setattr(accounts, "_owners", owners)
    await accounts.set_owner_name(account, "Straße 1")
    for name in (account, "Straße 1", "STRASSE 1", "straße 1"):
        found = await accounts.login(name)
        assert found is not None and (found.account, found.password) == (account, "scrypt$hash")
    unknown = (nameless, "000000000001", "1", "Ada", "Straße", "", "a\nb", "x" * 70_000)
    assert [await accounts.login(name) for name in unknown] == [None] * len(unknown)


async def test_a_name_finds_the_account_that_has_it_now(accounts: AccountStore) -> None:
    first, second = [(await accounts.create(ms)).account for ms in (1, 2)]
    await accounts.set_owner_name(first, "Ada")
    await accounts.set_owner_name(first, "Grace")
    assert await accounts.login("Ada") is None
    await accounts.set_owner_name(second, "ada")
    await accounts.set_owner_name(first, "")
    await accounts.set_owner_name(second, "ADA")
    logins = [await accounts.login(name) for name in ("Ada", "Grace")]
    assert [None if login is None else login.account for login in logins] == [second, None]
    await asyncio.gather(*[accounts.set_owner_name(second, name) for name in ("Ada", "Grace") * 3])
    (name,) = [one.name for one in await accounts.accounts() if one.account == second]
    login = await accounts.login(name)
    assert login is not None and login.account == second
    await accounts.delete(second)
    await accounts.set_owner_name(first, name)
    login = await accounts.login(name)
    assert login is not None and login.account == first


async def test_names_from_before_there_were_look_ups_are_entered(
    tmp_path: Path, cassandra_address: CassandraAddress
) -> None:
    database = Database(tmp_path, Clock())
    embedded = EmbeddedAccountStore(database, SEAL)
    database.start(asyncio.get_running_loop())
    account = (await embedded.create(1)).account
    await embedded.set_owner_name(account, "Straße")
    await database.write(lambda connection: connection.execute("UPDATE account_owners SET folded = ''"))
    await database.close()
    database = Database(tmp_path, Clock())
    found = await EmbeddedAccountStore(database, SEAL).login("STRASSE")
    assert found is not None and found.account == account
    database.start(asyncio.get_running_loop())
    await database.close()

    async with emptied(cassandra_address) as cassandra:
        stored = CassandraAccountStore(cassandra, SEAL)
        account = (await stored.create(1)).account
        await stored.set_owner_name(account, "Straße")
        await cassandra.run_schema("TRUNCATE account_names")
        assert await stored.login("STRASSE") is None
        await schema.apply(cassandra_address, replication=1)
        found = await stored.login("STRASSE")
        assert found is not None and found.account == account


async def test_an_owner_goes_with_the_account(accounts: AccountStore) -> None:
    account = (await accounts.create(1)).account
    await accounts.set_owner_name(account, "Ada")
    await accounts.set_password(account, "scrypt$hash", 2)
    await accounts.delete(account)
    assert await accounts.keys() == []
    assert await accounts.login("Ada") is None


async def test_the_internal_key_is_in_no_list(accounts: AccountStore) -> None:
    created = await asyncio.gather(*[accounts.internal_key(1) for _ in range(3)])
    assert {key.account for key in created} == {INTERNAL_ACCOUNT}
    assert len(set(created)) == 1
    assert await accounts.keys() == created[:1]
    assert await accounts.accounts() == []


async def test_a_signing_key_is_created_once(account_stores: AccountStores) -> None:
    keys = account_stores.signing_keys
    first, again = await asyncio.gather(keys.identity(1), keys.identity(2))
    assert first == again == await keys.identity(3)
    assert await keys.certificates() == [first.certificate_pem]


async def test_secrets_are_sealed_in_cassandra(cassandra: Cassandra) -> None:
    accounts = CassandraAccountStore(cassandra, SEAL)
    await accounts.set_password((await accounts.create(1)).account, "scrypt$hash", 2)
    rows = await cassandra.run(Statement("SELECT password FROM accounts WHERE shard = 0"))
    assert rows and b"scrypt" not in rows[0][0]
    with pytest.raises(StartError, match="master key"):
        await CassandraAccountStore(cassandra, Seal(b"x" * 32)).keys()


async def test_two_processes_sign_with_one_key(cassandra: Cassandra, session: Cassandra) -> None:
    keys = await asyncio.gather(*[CassandraSigningKeyStore(one, SEAL).identity(1) for one in (cassandra, session)])
    assert keys[0] == keys[1]
