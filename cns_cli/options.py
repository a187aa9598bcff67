"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path | None, typer.Option("--data", envvar="CNS_DATA", help="The data directory. Default: data.")]
Json = Annotated[bool, typer.Option("--json", help="For programs: one JSON value per line.")]
UntilInputEnds = Annotated[
    bool, typer.Option("--until-input-ends", help="Stop when standard input ends: with the program that started it.")
]
