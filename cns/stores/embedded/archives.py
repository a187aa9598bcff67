"""Archives of topics in SQLite: one row per message, written in the commit of the publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from cns.archives.model import SKEW_MS_MAX, ArchivedMessage
from cns.notification import Notification
from cns.stores.contract import ArchiveStore
from cns.stores.embedded import archive_schema as schema
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notification).decode


@refuse_bad_keys(ArchiveStore)
class EmbeddedArchiveStore(ArchiveStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(schema.TABLES)
        self._database = database

    async def append(self, archive_id: str, messages: Sequence[ArchivedMessage]) -> None:
        rows = [(archive_id, each.key, each.at_ms, each.expires_ms, _encode(each.notification)) for each in messages]
        await self._database.write(lambda connection: connection.executemany(schema.APPEND, rows))

    async def page(self, archive_id: str, from_ms: int, until_ms: int, after: str, n: int) -> list[ArchivedMessage]:
        """Read between two keys that are looked up by time, with a margin of SKEW_MS_MAX for messages out of order."""
        first = self._key(schema.LAST_BEFORE, archive_id, from_ms - SKEW_MS_MAX) or ""
        last = self._key(schema.FIRST_FROM, archive_id, until_ms + SKEW_MS_MAX) or schema.AFTER_ALL
        bounds = (archive_id, max(first, after), last, from_ms, until_ms, n)
        rows: list[Any] = self._database.reader.execute(schema.PAGE, bounds).fetchall()
        return [ArchivedMessage(at_ms, key, expires_ms, _decode(record)) for key, at_ms, expires_ms, record in rows]

    async def drop(self, archive_id: str) -> None:
        await self._database.write(lambda connection: connection.execute(schema.DROP, (archive_id,)), grows=False)

    async def sweep(self, now_ms: int, budget: int) -> int:
        def clear(connection: apsw.Connection) -> int:
            connection.execute(schema.REMOVE_EXPIRED, (now_ms, budget))
            done = connection.changes()
            while done < budget:
                dropped: Any = connection.execute(schema.FIND_DROPPED).fetchone()
                if dropped is None:
                    break
                connection.execute(schema.REMOVE_OF_DROPPED, (*dropped, budget - done))
                if not connection.changes():
                    connection.execute(schema.FORGET_DROPPED, dropped)
                done += connection.changes()
            return done

        if self._database.reader.execute(schema.SWEEPABLE, (now_ms,)).fetchone() is None:
            return 0  # an idle service does not commit
        return await self._database.write(clear, grows=False)

    def _key(self, statement: str, archive_id: str, at_ms: int) -> str | None:
        row: Any = self._database.reader.execute(statement, (archive_id, at_ms)).fetchone()
        return None if row is None else row[0]
