"""`cns config …`: apply, compare and export a file of queues, topics and subscriptions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import typer

from cns_cli.config.changes import DONE, Change, Planned, plan_file, run_steps
from cns_cli.config.document import read_file
from cns_cli.config.export import Exporter, yaml_text
from cns_cli.config.model import File
from cns_cli.config.remote import RemoteCalls
from cns_cli.config.source import ConfigError, Refused
from cns_cli.options import Json, Yes
from cns_cli.output import print_json, print_value, refuse
from cns_cli.remote.connection import EXIT_REFUSED, Service, with_service
from cns_common.errors import EXIT_USAGE, RequestError

EXIT_DIFFERENT = 1
Result = TypeVar("Result")

app = typer.Typer(help="A file of queues, topics and subscriptions.", no_args_is_help=True, add_completion=False)

FileName = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; - reads standard input.")]
Prune = Annotated[bool, typer.Option("--prune", help="Also delete what the file does not have.")]


@app.command("apply")
@with_service
def apply(service: Service, file: FileName, prune: Prune = False, yes: Yes = False, json: Json = False) -> None:
    """Make the service as the file says, and print what was done. --prune asks before it deletes.

    Example: cns config apply cns.yaml
    """

    async def work(calls: RemoteCalls) -> None:
        planned = await plan_file(read_file(file), calls.of, prune=prune)
        _confirm([one.change for one in planned if one.change.action == "delete"], yes=yes)
        await run_steps(planned, lambda change: _print(change, DONE[change.action], json=json))

    _run(service, work)


@app.command("diff")
@with_service
def diff(service: Service, file: FileName, prune: Prune = False, json: Json = False) -> None:
    """Print what apply would do. Exit code 1 if there are differences.

    Example: cns config diff cns.yaml --prune
    """

    async def work(calls: RemoteCalls) -> list[Planned]:
        return await plan_file(read_file(file), calls.of, prune=prune)

    changes = [one.change for one in _run(service, work) if one.change.action != "keep"]
    for change in changes:
        _print(change, change.action, json=json)
    if changes:
        sys.exit(EXIT_DIFFERENT)


@app.command("export")
@with_service
def export(service: Service, json: Json = False) -> None:
    """Print the file that `cns config apply` would make the account from. Secrets are not in it.

    Example: cns config export > cns.yaml
    """

    async def work(calls: RemoteCalls) -> None:
        exporter = Exporter(calls)
        found = await exporter.contents()
        for note in exporter.notes:
            print(f"cns: {note}", file=sys.stderr)
        if json:
            print_json([found])
        else:
            print(yaml_text(found), end="")

    _run(service, work)


@app.command("schema")
def schema(json: Json = True) -> None:
    """Print the JSON schema of the file, for editors. Example: cns config schema > cns.schema.json"""
    print_json([File.model_json_schema()])


def _run(service: Service, work: Callable[[RemoteCalls], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of `work`. A file that cannot be used, and a refusal, end the command."""
    try:
        return service.run_as(lambda _client, found, caller: asyncio.run(work(RemoteCalls(found, caller))))
    except ConfigError as error:
        refuse("\ncns: ".join(error.lines), EXIT_REFUSED if isinstance(error, Refused) else EXIT_USAGE)
    except RequestError as error:
        refuse(error, EXIT_REFUSED)


def _confirm(deleted: list[Change], *, yes: bool) -> None:
    """Ask before something is deleted. Programs cannot be asked: they say --yes."""
    if not deleted or yes:
        return
    for change in deleted:
        print(f"delete {change.kind} {change.name}", file=sys.stderr)
    if not sys.stdin.isatty():
        refuse("--prune deletes these: say --yes")
    typer.confirm("Delete these, with their messages?", abort=True)


def _print(change: Change, word: str, *, json: bool) -> None:
    print_value(change, change.text(word), json=json)
