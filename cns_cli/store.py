"""A store as a command reaches it: through the running service when there is one, else in the data directory itself."""

from __future__ import annotations

import asyncio
import sys
from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE
from cns_common.errors import OutcomeUnknown, RequestError, StartError, StoreUnavailable
from cns_common.logs import set_up_logs
from cns_common.rpc.protocol_proxy import methods_of, remote
from cns_common.rpc.rpc import Client
from cns_common.sealing import require_master_key
from cns_common.sqlite.database import STORE_FILE, Database

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Kept:
    """A contract, kept by what `make` makes, or by the store host under this prefix."""

    contract: type[Any]
    prefix: str
    make: Callable[[Database], Any]


@asynccontextmanager
async def embedded_store(
    settings: Settings,
    clock: Clock,
    contract: type[Any],
    prefix: str,
    make: Callable[[Database], Any],
    *,
    may_create: bool = False,
) -> AsyncIterator[Any]:
    """One contract alone. `may_create`: a store is made where there is none."""
    async with embedded_stores(settings, clock, Kept(contract, prefix, make), may_create=may_create) as (store,):
        yield store


@asynccontextmanager
async def embedded_stores(
    settings: Settings, clock: Clock, *kept: Kept, may_create: bool = False
) -> AsyncIterator[list[Any]]:
    """What keeps each of them."""
    if not may_create:
        require_store(settings)
    guard = partial(require_master_key, settings.data, settings.master_key)
    try:
        database = Database(settings.data, clock, guard=guard)
    except StartError as error:
        if error.exit_code != EXIT_DATA_IN_USE:
            raise
        methods = [methods_of(each.contract, each.prefix) for each in kept]
        client = Client(settings.socket_path, dict(ChainMap(*methods)))
        await client.start()
        try:
            yield [remote(each.contract, each.prefix, client) for each in kept]
        finally:
            await client.close()
        return
    stores = [each.make(database) for each in kept]
    database.start(asyncio.get_running_loop())
    try:
        yield stores
    finally:
        await database.close()


def require_store(settings: Settings) -> None:
    """For a command that is to make none where there is none: it says where it looked."""
    if not (settings.data / STORE_FILE).exists():
        where = f"there is no store in {settings.data.absolute()}: say with --data or CNS_DATA where it is"
        raise StartError(where, EXIT_DATA_UNUSABLE)


def run_command(work: Callable[[], Awaitable[Result]]) -> Result:
    """What it comes to; its refusal ends the command in one line."""

    async def run() -> Result:
        return await work()

    set_up_logs("warning", "command")  # on standard error: what a command prints is for programs, too
    try:
        return asyncio.run(run())
    except RequestError as error:
        sys.exit(f"cns: {error.message}")
    except (StoreUnavailable, OutcomeUnknown) as error:
        sys.exit(f"cns: {error}")
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
