"""A store as a command reaches it: through the running service when there is one, else in the data directory itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from common.clock import Clock
from common.directory import EXIT_DATA_IN_USE
from common.errors import RequestError, StartError
from common.rpc import Client
from common.rpc_contract import methods_of, remote
from common.settings import Settings
from common.sqlite import Database

Result = TypeVar("Result")


@asynccontextmanager
async def embedded_store(
    settings: Settings, clock: Clock, contract: type[Any], prefix: str, make: Callable[[Database], Any]
) -> AsyncIterator[Any]:
    """The contract kept by what `make` makes, or by the store host under this prefix."""
    try:
        database = Database(settings.data, clock)
    except StartError as error:
        if error.exit_code != EXIT_DATA_IN_USE:
            raise
        client = Client(settings.socket_path, methods_of(contract, prefix))
        await client.start()
        try:
            yield remote(contract, prefix, client)
        finally:
            await client.close()
        return
    store = make(database)
    database.start(asyncio.get_running_loop())
    try:
        yield store
    finally:
        await database.close()


def run_command(work: Callable[[], Awaitable[Result]]) -> Result:
    """What it comes to; its refusal ends the command in one line."""

    async def run() -> Result:
        return await work()

    try:
        return asyncio.run(run())
    except RequestError as error:
        sys.exit(f"cns: {error.message}")
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
