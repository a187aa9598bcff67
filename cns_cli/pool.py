"""`cns pool …`: the workers' pools, looked at and resized."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.options import Data

group = typer.Typer(help="The delivery pools of the workers, and their sizes.", no_args_is_help=True)

PoolName = Annotated[str, typer.Argument(metavar="POOL", help="delivery, or redelivery.")]
PoolWorker = Annotated[
    str, typer.Option(metavar="PROCESS", help="Of this worker only, until it ends. [default: of all]")
]


@group.command("list")
def pool_list(
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, for programs.")] = False,
    data: Data = None,
) -> None:
    """Print the pools of every worker: threads, what was wanted by whom, sends in flight and waiting."""
    from cns_cli.pool_actions import show_all

    show_all(data, as_json=as_json)


@group.command("resize")
def pool_resize(
    name: PoolName,
    threads: Annotated[int, typer.Argument(metavar="THREADS", help="In each worker, 1 to 64.")],
    worker: PoolWorker = "",
    data: Data = None,
) -> None:
    """Give a pool so many threads, in the workers that run and in those to come."""
    from cns_cli.pool_actions import resize

    resize(name, threads, worker, data)


@group.command("reset")
def pool_reset(name: PoolName, worker: PoolWorker = "", data: Data = None) -> None:
    """Give a pool the threads that the settings say."""
    from cns_cli.pool_actions import reset

    reset(name, worker, data)
