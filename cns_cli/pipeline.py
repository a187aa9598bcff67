"""`cns pipeline …`: reports by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cns_cli.options import Data

group = typer.Typer(help="Reports on what happened, by Spark; needs Java.", no_args_is_help=True)

Out = Annotated[Path | None, typer.Option(help="Where the tables and reports lie. [default: DATA/pipeline]")]


@group.command("ingest")
def pipeline_ingest(
    data: Data = None,
    events: Annotated[Path | None, typer.Option(help="Where events were written. [default: DATA/events]")] = None,
    out: Out = None,
) -> None:
    """Read the events that are new into tables, each once."""
    from cns_cli.pipeline_actions import ingest

    ingest(data, events, out)


@group.command("report")
def pipeline_report(data: Data = None, out: Out = None) -> None:
    """Per topic and subscription: accepted, attempts, success, times from publish to delivery."""
    from cns_cli.pipeline_actions import report

    report(data, out)
