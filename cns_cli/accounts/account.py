"""`cns account …`: accounts and their root keys."""

from __future__ import annotations

import sys

import typer

from cns_cli.accounts import user
from cns_cli.accounts.account_access import print_key, run_on_accounts
from cns_cli.options import Data
from cns_common.aws.auth.accounts import Account

app = typer.Typer(help="Accounts, their users and access keys.", no_args_is_help=True, add_completion=False)
app.add_typer(user.app, name="user")


@app.command("create")
def create(data: Data = None) -> None:
    """Create an account and print its root key, once."""
    print_key(run_on_accounts(data, lambda store, now_ms: store.create(now_ms), may_create=True), data)


@app.command("show")
def show(account: str, data: Data = None) -> None:
    """Print an account's root key ids. Secrets are not shown again."""
    found = [known for known in run_on_accounts(data, lambda store, _: store.accounts()) if known.account == account]
    if not found:
        sys.exit(f"cns: there is no account {account}")
    _print_accounts(found)


@app.command("list")
def list_accounts(data: Data = None) -> None:
    """Print all accounts with their root key ids."""
    found = run_on_accounts(data, lambda store, _: store.accounts())
    if not found:
        print("cns: no accounts; `cns account create` creates one", file=sys.stderr)
    _print_accounts(found)


@app.command("rotate")
def rotate(account: str, data: Data = None) -> None:
    """Print a new root key of an account, once. Its old root keys are refused from then on."""
    print_key(run_on_accounts(data, lambda store, now_ms: store.rotate(account, now_ms)), data)


def _print_accounts(accounts: list[Account]) -> None:
    for account in accounts:
        print(account.account, *account.key_ids)
