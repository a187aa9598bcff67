"""`cns quarantine …`: jobs set aside, and put back."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.options import Data

group = typer.Typer(help="Jobs that were begun too often and never finished.", no_args_is_help=True)


@group.command("list")
def quarantine_list(data: Data = None) -> None:
    """Print all that were set aside, a line each."""
    from cns_cli.quarantine_actions import show_all

    show_all(data)


@group.command("show")
def quarantine_show(job_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None) -> None:
    """Print one: where it was, why it is here, and what it says."""
    from cns_cli.quarantine_actions import show

    show(job_id, data)


@group.command("release")
def quarantine_release(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it; `all` is every one.")],
    data: Data = None,
) -> None:
    """Put jobs back into their queues, as if they had never been begun."""
    from cns_cli.quarantine_actions import release

    release(job_id, data)
