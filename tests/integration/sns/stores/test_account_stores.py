"""The contract of the stores of accounts and of the signing key, for every driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cns.stores.cassandra import CassandraSigningKeyStore
from cns.stores.contract import SigningKeyStore
from cns.stores.embedded.signing_key import EmbeddedSigningKeyStore
from cns_common.aws.auth.accounts import AccountStore, EmbeddedAccountStore
from cns_common.aws.auth.accounts_cassandra import CassandraAccountStore
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import RequestError, StartError
from cns_common.sealing import Seal
from cns_common.sqlite.database import Database
from tests.keyspace import emptied

SEAL = Seal(b"k" * 32)


@dataclass
class Stores:
    accounts: AccountStore
    signing_keys: SigningKeyStore


@pytest.fixture(params=["embedded", "cassandra"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    if request.param == "cassandra":
        async with emptied(request.getfixturevalue("cassandra_address")) as cassandra:
            yield Stores(CassandraAccountStore(cassandra, SEAL), CassandraSigningKeyStore(cassandra, SEAL))
    else:
        database = Database(tmp_path, Clock())
        stores = Stores(EmbeddedAccountStore(database, SEAL), EmbeddedSigningKeyStore(database, SEAL))
        database.start(asyncio.get_running_loop())
        yield stores
        await database.close()


async def test_accounts_and_their_keys(stores: Stores) -> None:
    changes: list[str] = []
    stores.accounts.changed.append(changes.append)
    second, first = await stores.accounts.create(2), await stores.accounts.create(1)
    assert [(one.account, one.key_ids) for one in await stores.accounts.accounts()] == [
        (first.account, (first.key_id,)),
        (second.account, (second.key_id,)),
    ]
    assert sorted(await stores.accounts.keys(), key=lambda key: key.created_ms) == [first, second]
    assert changes == [second.account, first.account]


async def test_a_rotated_key_replaces_the_old_one(stores: Stores) -> None:
    before = await stores.accounts.create(1)
    after = await stores.accounts.rotate(before.account, 2)
    assert (after.account, after.created_ms) == (before.account, 2)
    assert await stores.accounts.keys() == [after]
    for account in ("000000000001", INTERNAL_ACCOUNT):
        with pytest.raises(RequestError, match="there is no account"):
            await stores.accounts.rotate(account, 3)
    assert await stores.accounts.keys() == [after]


async def test_the_internal_key_is_in_no_list(stores: Stores) -> None:
    created = await asyncio.gather(*[stores.accounts.internal_key(1) for _ in range(3)])
    assert {key.account for key in created} == {INTERNAL_ACCOUNT}
    assert len(set(created)) == 1
    assert await stores.accounts.keys() == created[:1]
    assert await stores.accounts.accounts() == []


async def test_a_signing_key_is_created_once(stores: Stores) -> None:
    first, again = await asyncio.gather(stores.signing_keys.identity(1), stores.signing_keys.identity(2))
    assert first == again == await stores.signing_keys.identity(3)
    assert await stores.signing_keys.certificates() == [first.certificate_pem]


async def test_secrets_are_sealed_in_cassandra(cassandra_address: CassandraAddress) -> None:
    async with emptied(cassandra_address) as cassandra:
        await CassandraAccountStore(cassandra, SEAL).create(1)
        with pytest.raises(StartError, match="master key"):
            await CassandraAccountStore(cassandra, Seal(b"x" * 32)).keys()


async def test_two_processes_sign_with_one_key(cassandra_address: CassandraAddress) -> None:
    async with emptied(cassandra_address) as one:
        other = await Cassandra.open(cassandra_address)
        keys = await asyncio.gather(*[CassandraSigningKeyStore(session, SEAL).identity(1) for session in (one, other)])
        assert keys[0] == keys[1]
        await other.close()
