"""`cns redis servers …`: the Redis servers of the cluster form, added and removed while processes run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cns_cli.activity import recorded
from cns_cli.options import Json
from cns_cli.output import print_json, print_value, refuse
from cns_common.clock import Clock
from cns_common.configuration.checks import check_redis_url
from cns_common.configuration.settings import load_settings
from cns_common.errors import CnsError, StartError
from cns_common.redis.urls import address_of, check_server_name

if TYPE_CHECKING:  # its driver is installed in the cluster form only
    from cqs.engines.cluster.servers.operator import RedisServers, ServerChange

EXIT_FAILED = 1
Result = TypeVar("Result")

app = typer.Typer(help="Redis in the cluster form.", no_args_is_help=True, add_completion=False)
servers = typer.Typer(help="The Redis servers that hide messages.", no_args_is_help=True, add_completion=False)
app.add_typer(servers, name="servers")

ServerName = Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and hyphens.")]
ServerUrl = Annotated[
    str,
    typer.Argument(metavar="URL", help="redis://host:port/database. User and password are those of CNS_REDIS."),
]


@servers.command("list")
def servers_list(json: Json = False) -> None:
    """Print name, address, state and epoch of each server."""
    states = _run(lambda found: found.states())
    if not states:
        print("cns: no process with CNS_REDIS has started yet", file=sys.stderr)
    if json:
        print_json(
            {"name": server.name, "address": server.address, "inUse": in_use, "epoch": epoch}
            for server, in_use, epoch in states
        )
        return
    for server, in_use, epoch in states:
        print(f"{server.name}\t{server.address}\t{'in use' if in_use else 'lost'}\t{epoch}")


@servers.command("add")
def servers_add(name: ServerName, url: ServerUrl, json: Json = False) -> None:
    """Add a server: its share of the queues moves to it without loss."""
    from cqs.engines.cluster.servers.operator import added  # only this form has its drivers installed

    try:
        check_server_name(name)
        check_redis_url(url)
    except ValueError as error:
        refuse(error)
    with recorded(None, "AddRedisServer", name):
        _change(added(name, address_of(url)))
    print_value({"added": name}, f"cns: {name} is used; add it to CNS_REDIS of all processes", json=json)


@servers.command("remove")
def servers_remove(name: ServerName, json: Json = False) -> None:
    """Remove a server: its queues move to the others, without loss."""
    from cqs.engines.cluster.servers.operator import removed  # only this form has its drivers installed

    with recorded(None, "RemoveRedisServer", name):
        _change(removed(name))
    print_value(
        {"removed": name}, f"cns: {name} is no longer used; remove it from CNS_REDIS of all processes", json=json
    )


def _change(change: ServerChange) -> None:
    followed = _run(lambda found: found.change(change))
    if not followed:
        refuse("the list is changed, but not all processes use it yet: see their logs", EXIT_FAILED)


def _run(work: Callable[[RedisServers], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        from cns_backend.cluster import open_session
        from cqs.engines.cluster.servers.operator import RedisServers

        async with open_session(load_settings()) as (cassandra, _):
            return await work(RedisServers(cassandra, Clock()))

    try:
        return asyncio.run(run())
    except StartError as error:
        refuse(error, error.exit_code)
    except ValueError as error:
        refuse(error)
    except CnsError as error:
        refuse(error, EXIT_FAILED)
