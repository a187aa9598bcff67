"""`cns account …`: accounts and their keys."""

from __future__ import annotations

import typer

from workers.commands.options import Data

group = typer.Typer(help="Accounts and their access keys.", no_args_is_help=True)


@group.command("create")
def account_create(data: Data = None) -> None:
    """Make an account and print its keys, once."""
    from workers.account_commands import create

    create(data)


@group.command("show")
def account_show(account: str, data: Data = None) -> None:
    """Print an account's key ids (secrets are never shown again)."""
    from workers.account_commands import show

    show(account, data)


@group.command("list")
def account_list(data: Data = None) -> None:
    """Print all accounts."""
    from workers.account_commands import show_all

    show_all(data)


@group.command("rotate")
def account_rotate(account: str, data: Data = None) -> None:
    """Print new keys of an account, once; its former keys are refused from then on."""
    from workers.account_commands import rotate

    rotate(account, data)
