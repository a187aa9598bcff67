"""Notifications in SQLite: those that are too large for a job, or that several jobs refer to."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from cns.notification import Notification
from cns.stores.contract import NotificationStore
from cns.stores.embedded import schema
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notification).decode


@refuse_bad_keys(NotificationStore)
class EmbeddedNotificationStore(NotificationStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(schema.TABLES, schema.ADDED_COLUMNS)
        self._database = database

    async def put(self, notification: Notification, references: int, expires_ms: int) -> None:
        record = _encode(notification)

        def insert(connection: apsw.Connection) -> None:
            connection.execute(schema.PUT_NOTIFICATION, (notification.id, record))
            connection.execute(schema.PUT_REFS, (notification.id, references, expires_ms))

        await self._database.write(insert)

    async def get(self, notification_id: str) -> Notification | None:
        row: Any = self._database.reader.execute(schema.GET_NOTIFICATION, (notification_id,)).fetchone()
        if row is None:  # a receive may hand out a job before the commit that stores the job and its notification
            row = await self._database.write(lambda connection: _row(connection, notification_id), grows=False)
        return None if row is None else _decode(row[0])

    async def add_references(self, notification_id: str, change: int) -> None:
        def count(connection: apsw.Connection) -> None:
            row: Any = connection.execute(schema.REFER, (change, notification_id)).fetchone()
            if row is not None and row[0] <= 0:
                _remove(connection, [(notification_id,)])

        await self._database.write(count, grows=False)

    async def sweep(self, now_ms: int, budget: int) -> int:
        expired: Any = self._database.reader.execute(schema.EXPIRED_NOTIFICATIONS, (now_ms, budget)).fetchall()
        if expired:  # an idle service does not commit
            await self._database.write(lambda connection: _remove(connection, expired), grows=False)
        return len(expired)


def _row(connection: apsw.Connection, notification_id: str) -> Any:
    return connection.execute(schema.GET_NOTIFICATION, (notification_id,)).fetchone()


def _remove(connection: apsw.Connection, ids: list[tuple[str]]) -> None:
    connection.executemany(schema.REMOVE_NOTIFICATION, ids)
    connection.executemany(schema.REMOVE_REFS, ids)
