"""The `cns` command. It imports the module of a command when the command runs, so that `cns up` loads little."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

import cns
from cns_backend.optional_dependencies import extra_missing
from cns_cli.examples import epilog
from cns_cli.streams import discard_output, flushed_output, is_unwritten_output, prepare_streams
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import EXIT_SETTINGS_WRONG, EXIT_USAGE, StartError

COMMANDS = {
    "up": "cns_cli.service.up:up",
    "restart": "cns_cli.service.restart:restart",
    "receiver": "cns_cli.service.receiver:receiver",
    "api": "cns_cli.service.up:api",
    "worker": "cns_cli.service.up:worker",
    "queue": "cns_cli.remote.queue:app",
    "topic": "cns_cli.remote.topic:app",
    "subscriptions": "cns_cli.remote.subscriptions:app",
    "publish": "cns_cli.remote.topic:publish",
    "dead-letters": "cns_cli.remote.dead_letters:app",
    "config": "cns_cli.config.command:app",
    "replay": "cns_cli.replay.command:replay",
    "status": "cns_cli.overview.status:status",
    "top": "cns_cli.overview.top:top",
    "doctor": "cns_cli.doctor.command:doctor",
    "explain": "cns_cli.explain.command:explain",
    "endpoints": "cns_cli.delivery.endpoints:endpoints",
    "logs": "cns_cli.delivery.logs:logs",
    "activity": "cns_cli.overview.activity:activity",
    "outbox": "cns_cli.delivery.outbox:app",
    "quarantine": "cns_cli.delivery.quarantine:app",
    "version": "cns_cli.overview.version:version",
    "account": "cns_cli.accounts.account:app",
    "operator": "cns_cli.accounts.operator:app",
    "configure": "cns_cli.remote.configure:configure",
    "sms": "cns_cli.delivery.sms:app",
    "check": "cns_cli.store.check:check",
    "backup": "cns_cli.store.backup:backup",
    "restore": "cns_cli.store.restore:restore",
    "compact": "cns_cli.store.compact:compact",
    "upgrade": "cns_cli.store.upgrade:upgrade",
    "migrate": "cns_cli.store.migrate:migrate",
    "schema": "cns_cli.store.schema:app",
    "pool": "cns_cli.delivery.pool:app",
    "redis": "cns_cli.store.redis_servers:app",
    "site": "cns_cli.store.site:app",
    "pipeline": "cns_cli.pipeline.command:app",
    "completion": "cns_cli.completion:completion",
}
"""Each command's module and its function or, for a group, its `typer.Typer`; in the order of `cns --help`."""

PANELS = {
    "up": "Run it",
    "queue": "Queues, topics and messages",
    "status": "See what happens",
    "account": "Accounts",
    "check": "The store",
    "schema": "Large installations",
    "completion": "Shell",
}
"""Titles in `cns --help`, by the command that each is above."""

ALIASES = {"audit": "activity"}
"""Earlier names, which work for one release and are not listed."""

COMPLETION_VARIABLE = "_CNS_COMPLETE"
"""Set when a shell asks for completions: see `cns_cli/completion.py`."""

HELP_NAMES: dict[str, Any] = {"help_option_names": ["--help", "-h"]}


class CommandTable(TyperGroup):
    """The group of the commands in COMMANDS."""

    def list_commands(self, ctx: Any) -> list[str]:  # Typer's signature
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # Typer's signature
        names: Any = dict.fromkeys([*COMMANDS, *ALIASES])
        self.commands = names  # Typer suggests these for an unknown command
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # Typer has no public type of a command
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.partition(":")
        found = getattr(import_module(module), name)
        command: Any = get_group(found) if isinstance(found, typer.Typer) else get_command(_single(found))
        command.name = cmd_name
        until = list(COMMANDS)[: list(COMMANDS).index(cmd_name) + 1]
        command.rich_help_panel = [PANELS[one] for one in until if one in PANELS][-1]
        _complete_help(command, cmd_name)
        return command

    def get_params(self, ctx: Any) -> Any:  # Typer's signature
        return _without_types(super().get_params(ctx))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:  # Typer's signature; its own imports every command
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from typer._click.shell_completion import CompletionItem  # only a shell that completes needs it

        return [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]


app = typer.Typer(
    name="cns",
    cls=CommandTable,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP_NAMES,
)


def _complete_help(command: Any, words: str) -> None:
    """Add examples to the help of a command or of the commands of a group, shorten it in lists to its first sentence,
    and take `<bool>` from its flags."""
    for name, inner in getattr(command, "commands", {}).items():
        _complete_help(inner, f"{words} {name}")
    command.epilog = command.epilog or epilog(words)
    command.short_help = " ".join((command.help or "").split()).partition(". ")[0].removesuffix(".")
    _without_types(command.get_params(typer.Context(command, **HELP_NAMES)))


def _without_types(options: Any) -> Any:
    """The options; flags among them show no type."""
    for option in options:
        if getattr(option, "is_bool_flag", False):
            option.metavar = ""
    return options


def _single(function: Callable[..., None]) -> typer.Typer:
    single = typer.Typer(add_completion=False)
    single.command()(function)
    return single


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


def main() -> None:
    """Run a command. A start error ends it with one line and an exit code."""
    prepare_streams()
    _check_words(sys.argv[1:])
    if COMPLETION_VARIABLE in os.environ:  # noqa: TID251  # the shell's, no setting
        from typer._completion_classes import completion_init

        completion_init()
    try:
        with flushed_output():
            app(_without_help(sys.argv[1:]))
    except ModuleNotFoundError as error:
        _end(extra_missing(error))
    except StartError as error:
        _end(error)
    except OSError as error:
        if is_unwritten_output(error):
            discard_output()
            _end(StartError(f"cannot write: {error.strerror}", EXIT_DATA_UNUSABLE))
        from cns_common.tls import ca_bundle_fault

        trusted = os.environ.get("SSL_CERT_FILE")  # noqa: TID251  # httpx reads it, no setting
        if trusted and (fault := ca_bundle_fault(Path(trusted))):
            _end(StartError(f"SSL_CERT_FILE={trusted}: {fault}", EXIT_SETTINGS_WRONG))
        raise


def _without_help(words: list[str]) -> list[str]:
    """`cns help queue send` is `cns queue send --help`."""
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def _check_words(words: list[str]) -> None:
    """Refuse arguments that are not UTF-8: Python keeps their bytes as lone surrogates."""
    for n, word in enumerate(words, 1):
        if any("\ud800" <= character <= "\udfff" for character in word):
            print(f"cns: argument {n} is not text in UTF-8: {word}", file=sys.stderr)
            sys.exit(EXIT_USAGE)


def _end(error: StartError) -> NoReturn:
    print(f"cns: {error}", file=sys.stderr)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
