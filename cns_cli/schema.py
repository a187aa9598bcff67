"""`cns schema …`: the cluster form's tables."""

from __future__ import annotations

from typing import Annotated

import typer

group = typer.Typer(help="Keyspace and tables of the cluster form.", no_args_is_help=True)

Replication = Annotated[
    int | None, typer.Option(min=1, max=9, help="Copies in the data centre. [default: CNS_CASSANDRA_REPLICATION, 3]")
]


@group.command("apply")
def schema_apply(replication: Replication = None) -> None:
    """Make the keyspace and the tables that are missing."""
    from cns_cli.schema_actions import apply

    apply(replication)


@group.command("show")
def schema_show(replication: Replication = None) -> None:
    """Print the CQL that `apply` runs."""
    from cns_cli.schema_actions import show

    show(replication)


@group.command("check")
def schema_check(replication: Replication = None) -> None:
    """Compare what is there with what should be, a line for each difference."""
    from cns_cli.schema_actions import check

    check(replication)
