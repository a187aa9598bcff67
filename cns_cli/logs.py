"""`cns logs`: delivery status logs."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.options import Data


def logs(
    name: Annotated[str, typer.Argument(metavar="ARN", help="Of a topic or an application; or a log group: sns/….")],
    failures: Annotated[bool, typer.Option("--failures", help="Those that failed only.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")] = False,
    since: Annotated[str, typer.Option(help="10m, 2h, 1d, or a time: 2026-11-21T08:00 (UTC).")] = "",
    data: Data = None,
) -> None:
    """Print delivery status logs, a record a line, merged by time: those that workers of this machine wrote."""
    from cns_cli.logs_actions import show

    show(name, since, data, failures=failures, follow=follow)
