"""Options that commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path | None, typer.Option("--data", envvar="CNS_DATA", help="The data directory. Default: data.")]
Json = Annotated[bool, typer.Option("--json", help="For programs: one JSON value per line.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
UntilInputEnds = Annotated[
    bool, typer.Option("--until-input-ends", help="Stop when standard input ends, as when the starting program dies.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Ask at a terminal, and end the command for a no. Programs are not asked."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True)
