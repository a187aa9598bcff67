"""How account commands reach the accounts: through the running service, else on the data directory itself."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from cns_backend.urls import address_of
from cns_cli.store import embedded_store, run_command
from cns_common.aws.auth.accounts import AccessKey, AccountStore, EmbeddedAccountStore, exports
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.sealing import Seal, load_master_key
from cns_common.sqlite.database import Database

Result = TypeVar("Result")


def only_account(data: Path | None) -> str:
    """Return the account of a store that has one; otherwise the command ends."""
    found = run_on_accounts(data, lambda store, _: store.accounts())
    if len(found) != 1:
        sys.exit(f"cns: there are {len(found)} accounts: say which with --account")
    return found[0].account


def run_on_accounts(
    data: Path | None, work: Callable[[AccountStore, int], Awaitable[Result]], *, may_create: bool = False
) -> Result:
    """Return the result of `work` on the store at the present time; a refusal ends the command with one line."""

    async def run() -> Result:
        clock = Clock()
        async with _store(load_settings(data), clock, may_create=may_create) as store:
            return await work(store, clock.now_ms())

    return run_command(run)


@asynccontextmanager
async def _store(settings: Settings, clock: Clock, *, may_create: bool) -> AsyncIterator[AccountStore]:
    if settings.store == "cassandra":
        from cns_backend.cluster import open_account_store  # with drivers that only this form has installed

        async with open_account_store(settings) as kept:
            yield kept
        return

    def make(database: Database) -> AccountStore:
        key = load_master_key(settings.data, settings.master_key, may_make=may_create)
        return EmbeddedAccountStore(database, Seal(key))

    async with embedded_store(settings, clock, AccountStore, "accounts", make, may_create=may_create) as store:
        yield store


def print_key(key: AccessKey, data: Path | None) -> None:
    """Print, once, the shell lines that point AWS clients with this key at the service, at its address since its last
    start from this data directory."""
    settings = load_settings(data)
    address = address_of(settings)
    owner = f"user {key.user} of account {key.account}" if key.user else f"account {key.account}"
    print(f"# {owner}; paste these lines, they are shown only now:")
    print(exports(key, address.region, address.url), end="")
    if settings.auth == "off":
        print(f"# under --auth=off calls with them are of account {settings.account_id}")
