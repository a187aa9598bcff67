"""Opens stores for a command: through the running service, else in the data directory, or in Cassandra.

A command that needs one or two stores opens only those (`run_on_store`, `open_stores`), which loads little. A command
that also needs queues opens the backend of the service (`open_service_backend`).
"""

from __future__ import annotations

import asyncio
import sys
from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cns_cli.output import refuse
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.data_directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE
from cns_common.errors import OutcomeUnknown, RequestError, StartError, StoreUnavailable
from cns_common.logs import set_up_logs
from cns_common.rpc.protocol_proxy import methods_of, remote
from cns_common.rpc.rpc import RpcClient
from cns_common.sealing import require_master_key
from cns_common.sqlite.database import STORE_FILE, Database
from cns_common.sqlite.format import refuse_migration

if TYPE_CHECKING:
    from cns_backend.backend import Backend

Store = TypeVar("Store")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StoreSpec(Generic[Store]):
    """A store by its contract, and its constructors in each form of the service."""

    contract: type[Store]
    prefix: str
    """The prefix of its calls on the socket of the store host."""
    embedded: Callable[[Database], Store]
    cassandra: str = ""
    """`module:class`, made with a Cassandra session; imported in the cluster form only, which has its drivers."""


class StoreAccess:
    """Constructs the stores of the specs that it was opened with."""

    def __init__(self, make: Callable[[StoreSpec[Any]], Any]) -> None:
        self._make = make

    def store(self, spec: StoreSpec[Store]) -> Store:
        made: Store = self._make(spec)
        return made


@asynccontextmanager
async def open_stores(
    settings: Settings, clock: Clock, *specs: StoreSpec[Any], may_create: bool = False
) -> AsyncIterator[StoreAccess]:
    """Open access to the stores of `specs`. `may_create` creates a data directory without a store."""
    if settings.store == "cassandra":
        from cns_backend.cluster import open_session

        async with open_session(settings) as (cassandra, _):
            yield StoreAccess(lambda spec: _imported(spec.cassandra)(cassandra))
        return
    if not may_create:
        require_store(settings)
    guard = partial(require_master_key, settings.data, settings.master_key)
    try:
        database = Database(settings.data, clock, guard=guard)
    except StartError as error:
        if error.exit_code != EXIT_DATA_IN_USE:
            raise
        async with _running_service(settings, specs) as client:
            yield StoreAccess(lambda spec: remote(spec.contract, spec.prefix, client))
        return
    stores = {spec.prefix: spec.embedded(database) for spec in specs}
    database.start(asyncio.get_running_loop())
    try:
        yield StoreAccess(lambda spec: stores[spec.prefix])
    finally:
        await database.close()


@asynccontextmanager
async def _running_service(settings: Settings, specs: tuple[StoreSpec[Any], ...]) -> AsyncIterator[RpcClient]:
    methods = [methods_of(spec.contract, spec.prefix) for spec in specs]
    client = RpcClient(settings.socket_path, dict(ChainMap(*methods)))
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@asynccontextmanager
async def open_service_backend(settings: Settings) -> AsyncIterator[Backend]:
    """Open the backend of the running service, else of the data directory."""
    from cns_backend.store_client import open_backend
    from cns_backend.store_host import StoreHost  # slow to import; only commands about queues need it

    if settings.store == "embedded":
        require_store(settings)
        try:
            host = StoreHost(settings, refuse_migration)
        except StartError as error:
            if error.exit_code != EXIT_DATA_IN_USE:
                raise
        else:
            host.database.start(asyncio.get_running_loop())
            try:
                yield host.backend
            finally:
                await host.database.close()
            return
    async with open_backend(settings) as backend:
        yield backend


def require_store(settings: Settings, else_: str = "") -> None:
    """Raise a StartError that names the data directory if it has no store."""
    if not (settings.data / STORE_FILE).exists():
        text = f"there is no store in {settings.data.absolute()}: name its directory with --data or CNS_DATA{else_}"
        raise StartError(text, EXIT_DATA_UNUSABLE)


def run_on_store(data: Path | None, spec: StoreSpec[Store], work: Callable[[Store], Awaitable[Result]]) -> Result:
    """Return the result of `work` on one store; a refusal ends the command with one line."""

    async def run() -> Result:
        async with open_stores(load_settings(data), Clock(), spec) as access:
            return await work(access.store(spec))

    return run_command(run)


def run_command(work: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of `work`; a refusal ends the command with one line and an exit code."""

    async def run() -> Result:
        return await work()

    set_up_logs("warning", "command")  # on standard error: programs read a command's standard output
    try:
        return asyncio.run(run())
    except RequestError as error:
        sys.exit(f"cns: {error.message}")
    except (StoreUnavailable, OutcomeUnknown) as error:
        sys.exit(f"cns: {error}")
    except StartError as error:
        refuse(error, error.exit_code)
