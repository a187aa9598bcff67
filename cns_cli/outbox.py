"""`cns outbox …`: what was kept because no way out is set up."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.options import Data

group = typer.Typer(help="What was to leave by ways that are not set up.", no_args_is_help=True)


@group.command("list")
def outbox_list(
    account: Annotated[str, typer.Option(help="Of this account only.")] = "",
    protocol: Annotated[str, typer.Option(help="Of this protocol only: sms, email, lambda …")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 20,
    data: Data = None,
) -> None:
    """Print the newest, a line each."""
    from cns_cli.outbox_actions import show_newest

    show_newest(account, protocol, limit, data)


@group.command("show")
def outbox_show(item_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None) -> None:
    """Print one: to whom, by what, and what the endpoint would have got."""
    from cns_cli.outbox_actions import show

    show(item_id, data)
