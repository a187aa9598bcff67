"""The `cns` command. It loads little: what is slow to import is imported by the process that needs it."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

import cns
from cns_backend.extras import extra_missing
from cns_cli import account, outbox, pipeline, pool, quarantine, schema, sms
from cns_cli.check import check
from cns_cli.explain_command import explain
from cns_cli.logs import logs
from cns_cli.receiver import receiver
from cns_cli.up import api, up, worker
from cns_common.errors import StartError

app = typer.Typer(
    name="cns",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cns {cns.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """An open pub/sub notification service that speaks the Amazon SNS and SQS APIs."""


for command in (up, receiver, explain, logs, check, api, worker):
    app.command()(command)
for noun, group in {
    "account": account.group,
    "schema": schema.group,
    "outbox": outbox.group,
    "quarantine": quarantine.group,
    "sms": sms.group,
    "pool": pool.group,
    "pipeline": pipeline.group,
}.items():
    app.add_typer(group, name=noun)


def main() -> None:
    """Run a command. What keeps it from starting is one line and an exit code, in whichever command it comes up."""
    try:
        app()
    except ModuleNotFoundError as error:
        _end(extra_missing(error))
    except StartError as error:
        _end(error)


def _end(error: StartError) -> NoReturn:
    print(f"cns: {error}", file=sys.stderr)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
