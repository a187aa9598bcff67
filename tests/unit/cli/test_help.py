"""Each command has an example in its help, and the example is one that the command accepts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cns_cli.main import COMMANDS, PANELS, app
from cns_receiver.behaviour import Behaviour
from lab.harness import commands

ROOT: Any = get_command(app)  # Typer has no public type of a command
_EXAMPLE = re.compile(r"Examples?: (.+?)\s*\Z", re.DOTALL)
_REST = ("|", ">", "&&")


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command that is listed and no group, with its words."""
    inner = {} if words else {name: command.get_command(None, name) for name in COMMANDS}
    inner = inner or getattr(command, "commands", {})
    if not inner:
        yield words, command
    for name, one in inner.items():
        if not one.hidden:
            yield from leaves(one, (*words, name))


def example_of(command: Any) -> str:
    text = f"{command.help or ''} {command.epilog or ''}"
    found = _EXAMPLE.search(" ".join(text.split()))
    return found[1] if found else ""


ALL = list(leaves(ROOT))
GUIDE = Path(__file__).parents[3] / "docs" / "guide.md"


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) for words, _ in ALL])
def test_each_command_has_an_example_that_parses(words: tuple[str, ...], command: Any) -> None:
    example = example_of(command)
    assert example, f"cns {' '.join(words)} has no example: add one to its text, or to cns_cli/examples.py"
    given = shlex.split(example)
    while "=" in given[0]:
        given = given[1:]  # a variable
    assert given[: len(words) + 1] == ["cns", *words]
    rest = given[len(words) + 1 :]
    ends = [rest.index(mark) for mark in _REST if mark in rest]
    command.make_context(words[-1], rest[: min(ends, default=len(rest))])  # raises for unknown arguments


@pytest.mark.parametrize("where", ["help", "guide"])
def test_each_way_to_make_the_receiver_fail_is_where_one_looks(where: str) -> None:
    guide = GUIDE.read_text().partition("## Testing failures\n")[2].partition("\n## ")[0]
    text = guide if where == "guide" else str(dict(ALL)["receiver",].help)
    assert [key for key in Behaviour.__struct_fields__ if not re.search(rf"\b{key}\b", text)] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-h",), "Usage: cns [OPTIONS] COMMAND"),
        (("help",), "Usage: cns [OPTIONS] COMMAND"),
        (("help", "queue", "send"), "Usage: cns queue send "),
        (("queue", "-h"), "Usage: cns queue "),
        (("up", "-h"), "Usage: cns up "),
    ],
)
def test_help_is_found_where_it_is_looked_for(words: tuple[str, ...], said: str) -> None:
    done = commands.run(*words)
    assert (done.returncode, said in done.stdout) == (0, True), done


def test_help_lists_commands_by_task_and_shows_no_type_of_a_flag() -> None:
    shown = commands.run("--help").stdout
    places = [shown.index(text) for first, panel in PANELS.items() for text in (f" {panel} ─", f"│ {first} ")]
    assert places == sorted(places)
    tail = commands.run("queue", "tail", "--help").stdout
    assert "--unwrap" in tail and "bool" not in shown + tail
    assert "Example" not in commands.run("queue", "--help").stdout


@pytest.mark.parametrize("words", [("queu",), ("help", "queu"), ("queu", "list")])
def test_a_name_like_the_unknown_one_is_suggested(words: tuple[str, ...]) -> None:
    done = commands.run(*words)
    assert (done.returncode, "Did you mean 'queue'?" in done.stderr) == (2, True), done


@pytest.mark.parametrize(("group", "before", "now"), [((), "audit", "activity"), (("pipeline",), "audit", "verify")])
def test_an_earlier_name_works_and_is_not_listed(group: tuple[str, ...], before: str, now: str) -> None:
    shown = CliRunner().invoke(app, [*group, "--help"]).output
    assert f" {now} " in shown and f" {before} " not in shown
    earlier, later = [CliRunner().invoke(app, [*group, name, "--help"]) for name in (before, now)]
    assert (earlier.exit_code, later.exit_code) == (0, 0)
    assert earlier.output.splitlines()[2:8] == later.output.splitlines()[2:8]  # below the line of usage
