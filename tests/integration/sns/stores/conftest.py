"""The stores of accounts and of the signing key, of every driver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.stores.cassandra import CassandraSigningKeyStore
from cns_common.aws.auth.accounts import AccountStore
from cns_common.aws.auth.accounts_cassandra import CassandraAccountStore
from lab.harness.keyspace import emptied
from tests.integration.sns.stores.account_stores import SEAL, AccountStores, embedded


@pytest.fixture(params=["embedded", "cassandra"])
async def account_stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AccountStores]:
    if request.param == "cassandra":
        async with emptied(request.getfixturevalue("cassandra_address")) as cassandra:
            yield AccountStores(CassandraAccountStore(cassandra, SEAL), CassandraSigningKeyStore(cassandra, SEAL))
    else:
        async with embedded(tmp_path) as stores:
            yield stores


@pytest.fixture
def accounts(account_stores: AccountStores) -> AccountStore:
    return account_stores.accounts
