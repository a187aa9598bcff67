"""`cns config …`: apply, compare and export a file of queues, topics, subscriptions and accounts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cns_cli.accounts.account_access import open_accounts
from cns_cli.config.changes import DONE, Change, Planned, run_steps
from cns_cli.config.document import read_file
from cns_cli.config.export import yaml_text
from cns_cli.config.model import File
from cns_cli.config.source import ConfigError, Refused
from cns_cli.config.targets import AllAccounts, OneAccount
from cns_cli.options import Data, Json, Yes
from cns_cli.output import print_json, print_value, refuse
from cns_cli.remote.connection import EXIT_REFUSED, Service, UsageError, with_service
from cns_cli.store_access import run_command
from cns_common.clock import Clock
from cns_common.configuration.settings import load_settings
from cns_common.errors import EXIT_USAGE, RequestError

EXIT_DIFFERENT = 1
Result = TypeVar("Result")

app = typer.Typer(
    help="A file of queues, topics, subscriptions and accounts.", no_args_is_help=True, add_completion=False
)

FileName = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; - reads standard input.")]
Prune = Annotated[bool, typer.Option("--prune", help="Also delete what the file does not have.")]
Accounts = Annotated[
    bool, typer.Option("--accounts", help="All accounts with names, users and keys, where the store is (--data).")
]
Target = OneAccount | AllAccounts


@app.command("apply")
@with_service
def apply(
    service: Service,
    file: FileName,
    prune: Prune = False,
    accounts: Accounts = False,
    yes: Yes = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Make the service as the file says, and print what was done. --prune asks before it deletes.

    Example: cns config apply cns.yaml
    """

    async def work(target: Target) -> None:
        document = read_file(file)
        made = await target.plan_accounts(document)
        planned = await target.plan_resources(document, prune=prune)
        deleted = [one.change for one in planned if one.change.action == "delete"]
        _confirm(deleted, yes=yes, accounts=accounts)
        await run_steps(made, done)
        if made:  # their keys are known now; what somebody else made meanwhile stays
            again = await target.plan_resources(document, prune=prune)
            planned = [one for one in again if one.change.action != "delete" or one.change in deleted]
        await run_steps(planned, done)

    def done(change: Change) -> None:
        print_value(change, change.text(DONE[change.action], accounts=accounts), json=json)

    _run(service, data, work, accounts=accounts)


@app.command("diff")
@with_service
def diff(
    service: Service,
    file: FileName,
    prune: Prune = False,
    accounts: Accounts = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Print what apply would do. Exit code 1 if there are differences.

    Example: cns config diff cns.yaml --prune
    """

    async def work(target: Target) -> list[Planned]:
        document = read_file(file)
        return [*await target.plan_accounts(document), *await target.plan_resources(document, prune=prune)]

    changes = [one.change for one in _run(service, data, work, accounts=accounts) if one.change.action != "keep"]
    for change in changes:
        print_value(change, change.text(change.action, accounts=accounts), json=json)
    if changes:
        sys.exit(EXIT_DIFFERENT)


@app.command("export")
@with_service
def export(service: Service, accounts: Accounts = False, data: Data = None, json: Json = False) -> None:
    """Print the file that `cns config apply` would make the account from. Secrets are not in it.

    Example: cns config export > cns.yaml
    """
    found, notes = _run(service, data, lambda target: target.export(), accounts=accounts)
    for note in notes:
        print(f"cns: {note}", file=sys.stderr)
    if json:
        print_json([found])
    else:
        print(yaml_text(found), end="")


@app.command("schema")
def schema(json: Json = True) -> None:
    """Print the JSON schema of the file, for editors. Example: cns config schema > cns.schema.json"""
    print_json([File.model_json_schema()])


def _run(
    service: Service, data: Path | None, work: Callable[[Target], Coroutine[Any, Any, Result]], *, accounts: bool
) -> Result:
    """Return the result of `work`. A file that cannot be used, and a refusal, end the command."""

    async def run_on_accounts() -> Result:
        settings, clock, given = load_settings(data), Clock(), service.settings()
        if not (service.url or service.profile):
            given.url = ""  # AWS_ENDPOINT_URL may be another service, even one that was copied with its keys
        async with open_accounts(settings, clock) as store:
            return await work(AllAccounts(store, settings, clock, given))

    try:
        if accounts:
            return run_command(run_on_accounts)
        return service.run_as(lambda _client, found, caller: asyncio.run(work(OneAccount(found, caller))))
    except UsageError as error:
        refuse(error)
    except ConfigError as error:
        refuse("\ncns: ".join(error.lines), EXIT_REFUSED if isinstance(error, Refused) else EXIT_USAGE)
    except RequestError as error:
        refuse(error, EXIT_REFUSED)


def _confirm(deleted: list[Change], *, yes: bool, accounts: bool) -> None:
    """Ask before something is deleted. Programs cannot be asked: they say --yes."""
    if not deleted or yes:
        return
    for change in deleted:
        print(change.text("delete", accounts=accounts), file=sys.stderr)
    if not sys.stdin.isatty():
        refuse("--prune deletes these: say --yes")
    typer.confirm("Delete these, with their messages?", abort=True)
