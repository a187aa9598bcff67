"""`cns account user …`: named users of an account and their keys."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cns_cli.accounts.account_access import make_key, run_on_accounts
from cns_cli.activity import recorded
from cns_cli.options import Data, Json
from cns_cli.output import print_json, print_value
from cns_common.aws.auth.users import User

app = typer.Typer(
    help="Named users of an account, with up to two keys each.", no_args_is_help=True, add_completion=False
)
keys = typer.Typer(help="Keys of a user: two may be active, to rotate them.", no_args_is_help=True)
app.add_typer(keys, name="key")

Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Twelve digits.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="1 to 64 of A-Z a-z 0-9 _ + = , . @ -")]
KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The access key id.")]


@app.command("add")
def add(account: Account, name: Name, data: Data = None, json: Json = False) -> None:
    """Add a user and print its first key, once."""
    make_key(data, "AddUser", lambda store, now_ms: store.add_user(account, name, now_ms), account, json=json)


@app.command("list")
def list_users(account: Account, data: Data = None, json: Json = False) -> None:
    """Print a line per key: user name, user id, user state, key id, key state."""
    users = run_on_accounts(data, lambda store, _: store.users(account))
    if not users:
        print(f"cns: no users in account {account}; `cns account user add` adds one", file=sys.stderr)
    if json:
        print_json(map(_described, users))
        return
    for user in users:
        for line in _lines(user):
            print(line)


@app.command("disable")
def disable(account: Account, name: Name, data: Data = None, json: Json = False) -> None:
    """Refuse all keys of a user until it is enabled."""
    with recorded(data, "ChangeUser", account, f"user {name}, inactive"):
        run_on_accounts(data, lambda store, _: store.set_user_active(account, name, False))
    print_value({"user": name, "active": False}, "", json=json)


@app.command("enable")
def enable(account: Account, name: Name, data: Data = None, json: Json = False) -> None:
    """Accept the active keys of a user again."""
    with recorded(data, "ChangeUser", account, f"user {name}, active"):
        run_on_accounts(data, lambda store, _: store.set_user_active(account, name, True))
    print_value({"user": name, "active": True}, "", json=json)


@app.command("delete")
def delete(account: Account, name: Name, data: Data = None, json: Json = False) -> None:
    """Delete a user and all of its keys."""
    with recorded(data, "DeleteUser", account, f"user {name}"):
        run_on_accounts(data, lambda store, _: store.delete_user(account, name))
    print_value({"deleted": name}, "", json=json)


@keys.command("add")
def add_key(account: Account, name: Name, data: Data = None, json: Json = False) -> None:
    """Add a key and print it, once. The existing key stays active."""
    make_key(data, "AddUserKey", lambda store, now_ms: store.add_user_key(account, name, now_ms), account, json=json)


@keys.command("disable")
def disable_key(account: Account, name: Name, key_id: KeyId, data: Data = None, json: Json = False) -> None:
    """Refuse a key until it is enabled."""
    with recorded(data, "ChangeUserKey", account, f"user {name}, key {key_id}, inactive"):
        run_on_accounts(data, lambda store, _: store.set_user_key_active(account, name, key_id, False))
    print_value({"user": name, "keyId": key_id, "active": False}, "", json=json)


@keys.command("enable")
def enable_key(account: Account, name: Name, key_id: KeyId, data: Data = None, json: Json = False) -> None:
    """Accept a disabled key again."""
    with recorded(data, "ChangeUserKey", account, f"user {name}, key {key_id}, active"):
        run_on_accounts(data, lambda store, _: store.set_user_key_active(account, name, key_id, True))
    print_value({"user": name, "keyId": key_id, "active": True}, "", json=json)


@keys.command("delete")
def delete_key(account: Account, name: Name, key_id: KeyId, data: Data = None, json: Json = False) -> None:
    """Delete a key."""
    with recorded(data, "DeleteUserKey", account, f"user {name}, key {key_id}"):
        run_on_accounts(data, lambda store, _: store.delete_user_key(account, name, key_id))
    print_value({"user": name, "deleted": key_id}, "", json=json)


def _described(user: User) -> dict[str, object]:
    keys = [{"keyId": key.key_id, "createdAt": key.created_ms, "active": key.active} for key in user.keys]
    return {
        "name": user.name,
        "userId": user.user_id,
        "createdAt": user.created_ms,
        "active": user.active,
        "keys": keys,
    }


def _lines(user: User) -> list[str]:
    owner = f"{user.name} {user.user_id} {_state(user.active)}"
    return [f"{owner} {key.key_id} {_state(key.active)}" for key in user.keys] or [owner]


def _state(active: bool) -> str:
    return "active" if active else "disabled"
