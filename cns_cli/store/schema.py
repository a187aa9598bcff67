"""`cns schema …`: creates, prints and checks the keyspace and tables of the cluster form."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer

from cns_cli.options import Json
from cns_cli.output import print_json, print_value, refuse
from cns_common.configuration.settings import load_settings
from cns_common.errors import EXIT_CASSANDRA_UNUSABLE, OutcomeUnknown, StartError, StoreUnavailable

Result = TypeVar("Result")
EXIT_FAILED = 1

app = typer.Typer(help="Keyspace and tables of the cluster form.", no_args_is_help=True, add_completion=False)

Replication = Annotated[
    int | None, typer.Option(min=1, max=9, help="Copies in the data centre. Default: CNS_CASSANDRA_REPLICATION, 3.")
]


@app.command("apply")
def schema_apply(replication: Replication = None, json: Json = False) -> None:
    """Create the keyspace and its missing tables and columns, and set the options of its tables."""
    from cns_backend import schema  # only this form has its drivers installed
    from cns_common.cassandra.connection import cassandra_address

    settings = load_settings()
    _run(schema.apply(cassandra_address(settings), replication or settings.cassandra_replication))
    print_value(
        {"keyspace": settings.cassandra_keyspace, "applied": True},
        f"cns: keyspace {settings.cassandra_keyspace} has all tables",
        json=json,
    )


@app.command("show")
def schema_show(replication: Replication = None, json: Json = False) -> None:
    """Print the CQL statements of `apply`."""
    from cns_backend import schema  # only this form has its drivers installed
    from cns_common.cassandra.connection import cassandra_address

    settings = load_settings()
    texts = schema.show(cassandra_address(settings), replication or settings.cassandra_replication)
    if json:
        print_json({"statement": text} for text in texts)
    else:
        for text in texts:
            print(f"{text};")


@app.command("check")
def schema_check(replication: Replication = None, json: Json = False) -> None:
    """Compare the keyspace with the declared tables. Prints one line per difference."""
    from cns_backend import schema  # only this form has its drivers installed
    from cns_common.cassandra.connection import cassandra_address

    settings = load_settings()
    lines = _run(schema.check(cassandra_address(settings), replication or settings.cassandra_replication))
    if json:
        print_json([{"keyspace": settings.cassandra_keyspace, "differences": lines}])
    else:
        for line in lines or [f"cns: keyspace {settings.cassandra_keyspace} is as declared"]:
            print(line)
    if lines:
        sys.exit(EXIT_FAILED)


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return asyncio.run(work)
    except StartError as error:
        refuse(error, error.exit_code)
    except (StoreUnavailable, OutcomeUnknown) as error:
        refuse(error, EXIT_CASSANDRA_UNUSABLE)
