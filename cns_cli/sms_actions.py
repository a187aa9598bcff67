"""`cns sms …`: what a person's answer STOP would do, which does not reach this service by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cns.sms.numbers import check_number
from cns.stores.embedded import EmbeddedSmsStore
from cns.stores.mobile_contract import SmsStore
from cns_cli.account_actions import only_account
from cns_cli.store import embedded_store, run_command
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings


def opt_out(number: str, account: str, data: Path | None) -> None:
    """The number gets no SMS of the account any more."""
    settings = load_settings(data)
    owner = account or _own(settings, data)

    async def run() -> None:
        check_number(number)
        async with _store(settings) as store:
            await store.opt_out(owner, number)

    run_command(run)


def _own(settings: Settings, data: Path | None) -> str:
    """The account of whoever says none."""
    return settings.account_id if settings.auth == "off" else only_account(data)


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[SmsStore]:
    if settings.store == "cassandra":
        from cns.stores.cassandra import CassandraSmsStore  # with drivers that only this form has installed
        from cns_backend.cluster import open_session

        async with open_session(settings) as (cassandra, _):
            yield CassandraSmsStore(cassandra)
        return
    async with embedded_store(settings, Clock(), SmsStore, "sms", EmbeddedSmsStore) as store:
        yield store
