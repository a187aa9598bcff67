"""`cns sms …`: what a person's answer STOP would do, which does not reach this service by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from cns.sms.numbers import check_number
from cns.stores.embedded import EmbeddedSmsStore
from cns.stores.mobile_contract import SmsStore
from cns_cli.account_store import only_account
from cns_cli.options import Data
from cns_cli.store import embedded_store, run_command
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings

app = typer.Typer(help="Phone numbers that SMS go to.", no_args_is_help=True, add_completion=False)


@app.command("opt-out")
def sms_opt_out(
    number: str,
    account: Annotated[str, typer.Option(help="Whose SMS it gets no more. [default: the only one]")] = "",
    data: Data = None,
) -> None:
    """Enter what an answer STOP says: the number gets no SMS any more."""
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
