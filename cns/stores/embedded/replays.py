"""Replays in SQLite: one row per subscription."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from cns.archives.replay import Replay
from cns.stores.contract import ReplayStore
from cns.stores.embedded import archive_schema as schema
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Replay).decode


@refuse_bad_keys(ReplayStore)
class EmbeddedReplayStore(ReplayStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(schema.TABLES)
        self._database = database

    async def put(self, replay: Replay) -> None:
        key = (replay.subscription_arn, replay.topic_arn, int(replay.active), replay.id, replay.version)
        row = (*key, _encode(replay))
        await self._database.write(lambda connection: connection.execute(schema.PUT_REPLAY, row))

    async def get(self, subscription_arn: str) -> Replay | None:
        found = self._read(schema.GET_REPLAY, (subscription_arn,))
        return found[0] if found else None

    async def replace(self, replay: Replay, expected_version: int) -> bool:
        values = (int(replay.active), replay.version, _encode(replay))

        def update(connection: apsw.Connection) -> bool:
            connection.execute(schema.REPLACE_REPLAY, (*values, replay.subscription_arn, replay.id, expected_version))
            return connection.changes() > 0

        return await self._database.write(update)

    async def remove(self, subscription_arn: str) -> None:
        if self._read(schema.GET_REPLAY, (subscription_arn,)):  # most subscriptions have none, and need no commit
            row = (subscription_arn,)
            await self._database.write(lambda connection: connection.execute(schema.REMOVE_REPLAY, row), grows=False)

    async def of_topic(self, topic_arn: str) -> list[Replay]:
        return self._read(schema.REPLAYS_OF_TOPIC, (topic_arn,))

    async def active(self) -> list[Replay]:
        return self._read(schema.ACTIVE_REPLAYS, ())

    def _read(self, statement: str, bindings: tuple[str, ...]) -> list[Replay]:
        rows: list[Any] = self._database.reader.execute(statement, bindings).fetchall()
        return [_decode(record) for (record,) in rows]
