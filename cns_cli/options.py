"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

Data = Annotated[Optional[Path], typer.Option("--data", envvar="CNS_DATA", help="The data directory. [default: data]")]  # noqa: UP045  # typer reads it
