"""`cns account …`: accounts and their keys."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.options import Data

group = typer.Typer(help="Accounts, their users and access keys.", no_args_is_help=True)
users = typer.Typer(help="Named users of an account. Each has up to two keys.", no_args_is_help=True)
user_keys = typer.Typer(
    help="Keys of a user: a second one, so that both are good while it is rotated.", no_args_is_help=True
)
group.add_typer(users, name="user")
users.add_typer(user_keys, name="key")

Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Twelve digits.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="1 to 64 of A-Z a-z 0-9 _ + = , . @ -")]
KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The access key id.")]


@group.command("create")
def account_create(data: Data = None) -> None:
    """Make an account and print its keys, once."""
    from cns_cli.account_actions import create

    create(data)


@group.command("show")
def account_show(account: str, data: Data = None) -> None:
    """Print an account's key ids (secrets are never shown again)."""
    from cns_cli.account_actions import show

    show(account, data)


@group.command("list")
def account_list(data: Data = None) -> None:
    """Print all accounts."""
    from cns_cli.account_actions import show_all

    show_all(data)


@group.command("rotate")
def account_rotate(account: str, data: Data = None) -> None:
    """Print new keys of an account's root, once; its former keys are refused from then on."""
    from cns_cli.account_actions import rotate

    rotate(account, data)


@users.command("add")
def user_add(account: Account, name: Name, data: Data = None) -> None:
    """Add a user and print its first key, once."""
    from cns_cli.user_actions import add

    add(account, name, data)


@users.command("list")
def user_list(account: Account, data: Data = None) -> None:
    """Print a line for each key: name, user id, user's state, key id, key's state."""
    from cns_cli.user_actions import show_all

    show_all(account, data)


@users.command("disable")
def user_disable(account: Account, name: Name, data: Data = None) -> None:
    """Refuse all keys of a user until it is enabled."""
    from cns_cli.user_actions import set_active

    set_active(account, name, False, data)


@users.command("enable")
def user_enable(account: Account, name: Name, data: Data = None) -> None:
    """Accept the active keys of a user again."""
    from cns_cli.user_actions import set_active

    set_active(account, name, True, data)


@users.command("delete")
def user_delete(account: Account, name: Name, data: Data = None) -> None:
    """Delete a user and all of its keys."""
    from cns_cli.user_actions import delete

    delete(account, name, data)


@user_keys.command("add")
def user_key_add(account: Account, name: Name, data: Data = None) -> None:
    """Add a key and print it, once. The keys that are there stay good."""
    from cns_cli.user_actions import add_key

    add_key(account, name, data)


@user_keys.command("disable")
def user_key_disable(account: Account, name: Name, key_id: KeyId, data: Data = None) -> None:
    """Refuse a key until it is enabled."""
    from cns_cli.user_actions import set_key_active

    set_key_active(account, name, key_id, False, data)


@user_keys.command("enable")
def user_key_enable(account: Account, name: Name, key_id: KeyId, data: Data = None) -> None:
    """Accept a disabled key again."""
    from cns_cli.user_actions import set_key_active

    set_key_active(account, name, key_id, True, data)


@user_keys.command("delete")
def user_key_delete(account: Account, name: Name, key_id: KeyId, data: Data = None) -> None:
    """Delete a key."""
    from cns_cli.user_actions import delete_key

    delete_key(account, name, key_id, data)
