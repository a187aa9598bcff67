"""The stores of accounts and of the signing key: embedded in a directory, and in Cassandra."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from cns.stores.contract import SigningKeyStore
from cns.stores.embedded.signing_key import EmbeddedSigningKeyStore
from cns_common.aws.auth.accounts import AccountStore, EmbeddedAccountStore
from cns_common.clock import Clock
from cns_common.sealing import Seal
from cns_common.sqlite.database import Database

SEAL = Seal(b"k" * 32)


class AccountStores(NamedTuple):
    accounts: AccountStore
    signing_keys: SigningKeyStore


@asynccontextmanager
async def embedded(directory: Path, seal: Seal = SEAL) -> AsyncIterator[AccountStores]:
    database = Database(directory, Clock())
    stores = AccountStores(EmbeddedAccountStore(database, seal), EmbeddedSigningKeyStore(database, seal))
    database.start(asyncio.get_running_loop())
    try:
        yield stores
    finally:
        await database.close()
