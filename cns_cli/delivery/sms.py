"""`cns sms …`: opt-outs of phone numbers, which carriers cannot report to this service."""

from __future__ import annotations

import sys
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

PAGE = 100

app = typer.Typer(help="Phone numbers that receive SMS.", no_args_is_help=True, add_completion=False)


AccountOption = Annotated[str, typer.Option("--account", help="The sender's account. Default: the only one.")]
Number = Annotated[str, typer.Argument(metavar="NUMBER", help="As in +14155550100.")]


@app.command("list")
def sms_list(account: AccountOption = "", data: Data = None, json: Json = False) -> None:
    """Print the phone numbers that opted out of an account's SMS."""
    owner = account or _default_account(data)

    async def read(store: SmsStore) -> list[str]:
        found: list[str] = []
        while page := await store.page_of_opted_out(owner, found[-1] if found else "", PAGE):
            found += page
        return found

    numbers = run_on_store(data, SMS, read)
    if not numbers:
        print(f"cns: no number has opted out of the SMS of account {owner}", file=sys.stderr)
    for number in numbers:
        print_value({"account": owner, "optedOut": number}, number, json=json)


@app.command("opt-out")
def sms_opt_out(number: Number, account: AccountOption = "", data: Data = None, json: Json = False) -> None:
    """Record that a phone number answered STOP: it gets no more SMS."""
    _change(data, account or _default_account(data), number, out=True, json=json)


@app.command("opt-in")
def sms_opt_in(number: Number, account: AccountOption = "", data: Data = None, json: Json = False) -> None:
    """Record that a phone number answered START: it gets SMS again."""
    _change(data, account or _default_account(data), number, out=False, json=json)


def _change(data: Path | None, owner: str, number: str, *, out: bool, json: bool) -> None:
    async def change(store: SmsStore) -> None:
        check_number(number)
        await (store.opt_out if out else store.opt_in)(owner, number)

    with recorded(data, f"Opt{'Out' if out else 'In'}PhoneNumber", owner, f"number that ends in {number[-4:]}"):
        run_on_store(data, SMS, change)
    said = f"{number} gets {'no SMS' if out else 'SMS again'}: account {owner}"
    print_value({"account": owner, "optedOut" if out else "optedIn": number}, said, json=json)


def _default_account(data: Path | None) -> str:
    settings = load_settings(data)
    return settings.account_id if settings.auth == "off" else only_account(data)
