"""The side of a data directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import apsw

from cns_backend.engines import DEFAULT_EMBEDDED_ENGINE
from cns_backend.store_host import StoreHost
from cns_backend.transfer.side import Kind, Row, Side
from cns_common.configuration.settings import Settings
from cns_common.sqlite.format import refuse_migration
from cqs.internal_queues import internal_ref

PAGE_ROWS = 200
_JOBS = internal_ref("").id


class EmbeddedSide(Side):
    engine = DEFAULT_EMBEDDED_ENGINE

    def __init__(self, host: StoreHost, where: str) -> None:
        self.where = where
        self.host = host
        self.backend = host.backend
        self.database = host.database

    async def read(self, kind: Kind) -> AsyncIterator[list[Row]]:
        if kind.pages is not None:
            async for page in kind.pages(self):
                yield page
            return
        await self.database.flush()
        cursor: Any = self.database.reader.execute(kind.embedded)
        while rows := [kind.plain(row) for row in islice(cursor, PAGE_ROWS)]:
            yield rows

    async def write(self, kind: Kind, rows: Sequence[Row]) -> None:
        insert = kind.insert
        if insert is None:
            assert kind.put is not None
            await asyncio.gather(*[kind.put(self, row) for row in rows])
            return

        def write(connection: apsw.Connection) -> None:
            for row in rows:
                insert(connection, row)

        await self.database.write(write)

    async def job_queues(self) -> list[str]:
        text = "SELECT DISTINCT queue FROM lines WHERE queue > ? AND queue < ? ORDER BY queue"
        rows: Any = self.database.reader.execute(text, (_JOBS, _JOBS + "\x7f"))
        return [queue.removeprefix(_JOBS) for (queue,) in rows]

    async def count_messages(self) -> int:
        found: int = self.database.reader.execute("SELECT count(*) FROM slots").get
        return found


@asynccontextmanager
async def open_embedded_side(settings: Settings) -> AsyncIterator[EmbeddedSide]:
    """Open the store of a data directory for a move. Raises StartError for a store of an earlier format."""
    host = StoreHost(settings, refuse_migration, moving=True)
    host.database.start(asyncio.get_running_loop())
    try:
        yield EmbeddedSide(host, str(settings.data.absolute()))
    finally:
        await host.database.close()
