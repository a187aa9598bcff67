"""Notifications in Cassandra: each is stored once, with one row for each change of its number of references."""

from __future__ import annotations

import msgspec

from cns.limits import NOTIFICATION_MS
from cns.notification import Notification
from cns.stores.cassandra import schema
from cns.stores.contract import NotificationStore
from cns_common.cassandra.session import Cassandra
from cns_common.ids import uuid_text
from cns_common.store_keys import refuse_bad_keys

EXPIRY_MARGIN_S = 86_400
"""Rows live longer than their notification by this: test clocks run ahead of Cassandra's."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notification).decode


@refuse_bad_keys(NotificationStore)
class CassandraNotificationStore(NotificationStore):
    """A change of the count is a row with its own id, so a repeated write counts once. A process that adds references
    holds one itself until they are stored, so the sum of the rows is never too low. A crash before a reference is
    given back leaves it too high; then the rows expire by their time to live.
    """

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def put(self, notification: Notification, references: int, expires_ms: int) -> None:
        """Write the references first: the first reference given back would remove a notification without references."""
        life_s = max(expires_ms - notification.timestamp_ms, 0) // 1000 + EXPIRY_MARGIN_S
        await self._cassandra.run(schema.REFER, notification.id, uuid_text(), references, life_s)
        await self._cassandra.run(schema.PUT_NOTIFICATION, notification.id, _encode(notification), life_s)

    async def get(self, notification_id: str) -> Notification | None:
        rows = await self._cassandra.run(schema.GET_NOTIFICATION, notification_id)
        return _decode(rows[0][0]) if rows else None

    async def add_references(self, notification_id: str, change: int) -> None:
        life_s = NOTIFICATION_MS // 1000 + EXPIRY_MARGIN_S
        await self._cassandra.run(schema.REFER, notification_id, uuid_text(), change, life_s)
        if change >= 0:
            return
        ((references,),) = await self._cassandra.run(schema.REFERENCES, notification_id)
        if (references or 0) <= 0:
            await self._cassandra.run(schema.REMOVE_NOTIFICATION, notification_id)
            await self._cassandra.run(schema.REMOVE_REFERENCES, notification_id)

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Nothing to do: rows expire by their time to live."""
        return 0
