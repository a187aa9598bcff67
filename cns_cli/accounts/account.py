"""`cns account …`: accounts and their root keys."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from cns.delivery.envelope import timestamp_text
from cns_backend.explain.labels import one_line
from cns_cli.accounts import user
from cns_cli.accounts.account_access import make_key, run_on_accounts
from cns_cli.activity import recorded
from cns_cli.options import Data, Json
from cns_cli.output import print_items, print_json, print_table, print_value
from cns_cli.progress import open_steps
from cns_cli.store_access import open_service_backend, run_command
from cns_common.aws.auth.accounts import Account, AccountStore
from cns_common.aws.auth.passwords import check_password, hash_password
from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import RequestError

LINE_BYTES_MAX = 4_096
TITLES = ("account", "created", "users", "name", "password", "root keys")
_KINDS = ("users", "queues", "topics", "subscriptions", "applications")

app = typer.Typer(help="Accounts, their users and access keys.", no_args_is_help=True, add_completion=False)
app.add_typer(user.app, name="user")


@app.command("create")
def create(data: Data = None, json: Json = False) -> None:
    """Create an account and print its root key, once."""
    make_key(data, "CreateAccount", lambda store, now_ms: store.create(now_ms), may_create=True, json=json)


@app.command("show")
def show(account: str, data: Data = None, json: Json = False) -> None:
    """Print an account with its root key ids and the number of its users. Secrets are not shown again."""
    _existing(data, account)
    (one,) = run_on_accounts(data, lambda store, _: _described(store, account))
    if json:
        print_json([one])
    else:
        print_table(("attribute", "value"), zip(TITLES, _cells(one), strict=True))


@app.command("list")
def list_accounts(data: Data = None, json: Json = False) -> None:
    """Print all accounts with their root key ids and the numbers of their users."""
    found = run_on_accounts(data, lambda store, _: _described(store))
    if not found:
        print("cns: no accounts; `cns account create` creates one", file=sys.stderr)
    print_items(found, TITLES, _cells, json=json)


@app.command("name")
def name_owner(account: str, name: str, data: Data = None, json: Json = False) -> None:
    """Set the name of an account's owner; "" removes it."""
    with recorded(data, "ChangeOwner", account, f"name {name}"):
        run_on_accounts(data, lambda store, _: store.set_owner_name(account, name))
    print_value({"account": account, "name": name}, "", json=json)


@app.command("password")
def password(
    account: str,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the password: only keys sign in.")] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Set the password with which the account's owner signs in to the pages. Sessions of the former
    password end. On a terminal the command asks for the password twice, else it reads a line of standard input.
    """
    with recorded(data, "ChangeOwner", account, f"password {'removed' if remove else 'set'}"):
        if not remove and sys.stdin.isatty():
            _existing(data, account)
        hashed = "" if remove else hash_password(_read_password())
        run_on_accounts(data, lambda store, now_ms: store.set_password(account, hashed, now_ms))
    print_value({"account": account, "hasPassword": not remove}, "", json=json)


@app.command("delete")
def delete(
    account: str,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Delete an account with its keys, users, queues, topics, subscriptions and platform applications.

    Its keys are refused at once. If the command is interrupted, run it again.
    """
    if not yes:
        _existing(data, account)
        typer.confirm(f"Delete account {account} and everything in it?", abort=True)
    with recorded(data, "DeleteAccount", account):
        deleted = run_command(lambda: _delete(load_settings(data), account))
    counts = ", ".join([f"{n} {kind}" for kind, n in deleted.items()])
    print_value({"deleted": account, **deleted}, f"deleted account {account}: {counts}", json=json)


async def _delete(settings: Settings, account: str) -> dict[str, int]:
    from cns_backend.account_removal import AccountRemoval  # slow to import
    from cns_backend.services import audit_log, queue_service

    totals = Counter[str]()
    async with open_service_backend(settings) as backend:
        audit = audit_log(settings, "command", backend.clock)
        try:
            removal = AccountRemoval(backend, await queue_service(settings, backend, audit))
            complete = False
            with open_steps(f"deleting account {account}") as steps:
                while not complete:
                    step = await removal.step(account)
                    complete = step.complete
                    totals.update({kind: getattr(step, kind) for kind in _KINDS})
                    steps.advance()
        finally:
            audit.close()
    return {kind: totals[kind] for kind in _KINDS}


@app.command("rotate")
def rotate(account: str, data: Data = None, json: Json = False) -> None:
    """Print a new root key of an account, once. Its old root keys are refused from then on."""
    make_key(data, "RotateKeys", lambda store, now_ms: store.rotate(account, now_ms), account, json=json)


def _existing(data: Path | None, account: str) -> Account:
    """The account. Ends the command if it does not exist, before a person is asked."""
    for known in run_on_accounts(data, lambda store, _: store.accounts()):
        if known.account == account:
            return known
    sys.exit(f"cns: there is no account {account}")


def _read_password() -> str:
    """Read a valid password. Ends the command for an invalid one."""
    if sys.stdin.isatty():
        given: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        given = sys.stdin.buffer.readline(LINE_BYTES_MAX).decode(errors="replace").rstrip("\r\n")
    try:
        check_password(given)
    except RequestError as error:
        sys.exit(f"cns: {error.message}")
    return given


async def _described(store: AccountStore, only: str = "") -> list[dict[str, Any]]:
    return [
        {
            "account": one.account,
            "createdAt": one.created_ms,
            "keyIds": one.key_ids,
            "name": one.name,
            "hasPassword": one.has_password,
            "users": len(await store.users(one.account)),
        }
        for one in await store.accounts()
        if only in ("", one.account)
    ]


def _cells(one: dict[str, Any]) -> tuple[object, ...]:
    name, keys, password = one_line(one["name"]) or "-", " ".join(one["keyIds"]), "yes" if one["hasPassword"] else "no"
    return (one["account"], timestamp_text(one["createdAt"]), one["users"], name, password, keys)
