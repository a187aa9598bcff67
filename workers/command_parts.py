"""The parts of the service as a command reaches them: those of the one that runs, else the data directory's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from common.directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE
from common.errors import StartError
from common.settings import Settings
from common.sqlite import STORE_FILE
from workers.host import Parts, StoreHost, open_parts


@asynccontextmanager
async def parts_of(settings: Settings) -> AsyncIterator[Parts]:
    """A command makes no store where there is none."""
    if settings.store == "embedded":
        if not (settings.data / STORE_FILE).exists():
            raise StartError(f"there is no store in {settings.data}", EXIT_DATA_UNUSABLE)
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
