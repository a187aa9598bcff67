"""Access to accounts and users for commands, and the output of new keys."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from cns_backend.urls import address_of
from cns_cli.activity import recorded
from cns_cli.output import print_json
from cns_cli.store_access import StoreSpec, open_stores, run_command
from cns_common.aws.auth.access_keys import described_key
from cns_common.aws.auth.accounts import AccessKey, AccountStore, EmbeddedAccountStore, exports
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.sealing import Seal, load_master_key
from cns_common.sqlite.database import Database

Result = TypeVar("Result")


def only_account(data: Path | None) -> str:
    """Return the only account of a store. Ends the command if there are several."""
    found = run_on_accounts(data, lambda store, _: store.accounts())
    if len(found) != 1:
        sys.exit(f"cns: there are {len(found)} accounts: name one with --account")
    return found[0].account


def run_on_accounts(
    data: Path | None, work: Callable[[AccountStore, int], Awaitable[Result]], *, may_create: bool = False
) -> Result:
    """Return the result of `work` on the accounts and the current time. A refusal ends the command with one line."""

    async def run() -> Result:
        clock = Clock()
        async with open_accounts(load_settings(data), clock, may_create=may_create) as accounts:
            return await work(accounts, clock.now_ms())

    return run_command(run)


@asynccontextmanager
async def open_accounts(settings: Settings, clock: Clock, *, may_create: bool = False) -> AsyncIterator[AccountStore]:
    if settings.store == "cassandra":
        from cns_backend.cluster import open_account_store  # only this form has its drivers installed

        async with open_account_store(settings) as store:  # announces changes to the running processes
            yield store
        return

    def embedded(database: Database) -> AccountStore:
        key = load_master_key(settings.data, settings.master_key, may_make=may_create)
        return EmbeddedAccountStore(database, Seal(key))

    spec = StoreSpec(AccountStore, "accounts", embedded)
    async with open_stores(settings, clock, spec, may_create=may_create) as access:
        yield access.store(spec)


def make_key(
    data: Path | None,
    action: str,
    make: Callable[[AccountStore, int], Awaitable[AccessKey]],
    account: str = "",
    *,
    may_create: bool = False,
    json: bool,
) -> None:
    """Make a key, print it once, and record the act with its id."""
    with recorded(data, action, account) as note:
        key = run_on_accounts(data, make, may_create=may_create)
        note.target, note.detail = key.account, described_key(key)
    print_key(key, data, json=json)


def print_key(key: AccessKey, data: Path | None, *, json: bool) -> None:
    """Print the key, the URL and the region of the service, once: as shell lines for AWS clients, or as JSON."""
    settings = load_settings(data)
    address = address_of(settings)
    if json:
        known = {"account": key.account, "user": key.user or None, "keyId": key.key_id, "secret": key.secret}
        print_json([{**known, "url": address.url, "region": address.region}])
        return
    owner = f"user {key.user} of account {key.account}" if key.user else f"account {key.account}"
    print(f"# {owner}; paste these lines, they are shown only now:")
    print(exports(key, address.region, address.url), end="")
    if settings.auth == "off":
        print(f"# with --auth=off, calls with this key belong to account {settings.account_id}")
