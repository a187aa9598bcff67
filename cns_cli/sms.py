"""`cns sms …`: numbers that get no SMS."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.options import Data

group = typer.Typer(help="Phone numbers that SMS go to.", no_args_is_help=True)


@group.command("opt-out")
def sms_opt_out(
    number: str,
    account: Annotated[str, typer.Option(help="Whose SMS it gets no more. [default: the only one]")] = "",
    data: Data = None,
) -> None:
    """Enter what an answer STOP says: the number gets no SMS any more."""
    from cns_cli.sms_actions import opt_out

    opt_out(number, account, data)
