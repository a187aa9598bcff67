"""`cns sms …`: opt-outs of phone numbers, which carriers cannot report to this service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cns.sms.numbers import check_number
from cns.stores.embedded import EmbeddedSmsStore
from cns.stores.mobile_contract import SmsStore
from cns_cli.accounts.account_access import only_account
from cns_cli.activity import recorded
from cns_cli.options import Data, Json
from cns_cli.output import print_value
from cns_cli.store_access import StoreSpec, run_on_store
from cns_common.configuration.settings import load_settings

SMS = StoreSpec(SmsStore, "sms", EmbeddedSmsStore, "cns.stores.cassandra:CassandraSmsStore")

app = typer.Typer(help="Phone numbers that receive SMS.", no_args_is_help=True, add_completion=False)


@app.command("opt-out")
def sms_opt_out(
    number: str,
    account: Annotated[str, typer.Option(help="Account whose SMS stop. Default: the only one.")] = "",
    data: Data = None,
    json: Json = False,
) -> None:
    """Record that a phone number answered STOP: it gets no more SMS."""
    owner = account or _default_account(data)

    async def opt_out(store: SmsStore) -> None:
        check_number(number)
        await store.opt_out(owner, number)

    with recorded(data, "OptOutPhoneNumber", owner, f"number that ends in {number[-4:]}"):
        run_on_store(data, SMS, opt_out)
    print_value({"account": owner, "optedOut": number}, "", json=json)


def _default_account(data: Path | None) -> str:
    settings = load_settings(data)
    return settings.account_id if settings.auth == "off" else only_account(data)
