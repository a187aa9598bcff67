"""The parts of the service as a command reaches them: those of the one that runs, else the data directory's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cns_backend.store_host import Parts, StoreHost, open_parts
from cns_cli.store import require_store
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_IN_USE
from cns_common.errors import StartError


@asynccontextmanager
async def parts_of(settings: Settings) -> AsyncIterator[Parts]:
    if settings.store == "embedded":
        require_store(settings)
        try:
            host = StoreHost(settings)
        except StartError as error:
            if error.exit_code != EXIT_DATA_IN_USE:
                raise
        else:
            host.database.start(asyncio.get_running_loop())
            try:
                yield host.parts
            finally:
                await host.database.close()
            return
    async with open_parts(settings) as parts:
        yield parts
