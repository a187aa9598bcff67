"""The parts of the service as a command reaches them: those of the one that runs, else the data directory's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from common.directory import EXIT_DATA_IN_USE
from common.errors import StartError
from common.settings import Settings
from workers.command_store import require_store
from workers.host import Parts, StoreHost, open_parts


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
