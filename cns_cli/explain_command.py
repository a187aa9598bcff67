"""`cns explain`: one message's life."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cns_cli.options import Data


def explain(
    message_id: str,
    topic: Annotated[str, typer.Option(metavar="ARN", help="Where nothing else says it.")] = "",
    subscription: Annotated[str, typer.Option(metavar="ARN", help="Of this one only.")] = "",
    since: Annotated[str, typer.Option(metavar="AGO", help="Look at events of the last 45m, 2h, 3d only.")] = "",
    events: Annotated[
        list[Path] | None, typer.Option(help="Where events lie; several. [default: where this process would write]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, as JSON.")] = False,
    data: Data = None,
) -> None:
    """Tell one message's life: accepted, filtered, each attempt and its answer, the next one, the end."""
    from cns_cli.explain.command import Asked, show

    show(Asked(message_id, topic, subscription, since, tuple(events or ()), data), as_json=as_json)
