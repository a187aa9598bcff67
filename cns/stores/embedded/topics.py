"""Topics in SQLite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from cns.stores.contract import TopicStore
from cns.stores.embedded import schema
from cns.topics.topic import Topic, TopicCounts
from cns_common.arn import topic_arn
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Topic).decode


@refuse_bad_keys(TopicStore)
class EmbeddedTopicStore(TopicStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(schema.TABLES, schema.ADDED_COLUMNS)
        self._database = database
        self.changed: list[Callable[[str], None]] = []

    async def create(self, topic: Topic) -> Topic:
        def insert(connection: apsw.Connection) -> Topic:
            row: Any = connection.execute(schema.GET_TOPIC, (topic.arn,)).fetchone()
            if row is not None:
                return _decode(row[0])
            connection.execute(schema.INSERT_TOPIC, (topic.arn, topic.id, topic.version, _encode(topic)))
            connection.execute(schema.START_COUNTS, (connection.last_insert_rowid(),))
            connection.execute(schema.COUNT_TOPICS, (topic.account, 1, int(topic.fifo)))
            return topic

        created = await self._database.write(insert)
        self._notify(topic.arn)
        return created

    async def get(self, arn: str) -> Topic | None:
        row: Any = self._database.reader.execute(schema.GET_TOPIC, (arn,)).fetchone()
        return None if row is None else _decode(row[0])

    async def replace(self, topic: Topic, expected_version: int) -> bool:
        def update(connection: apsw.Connection) -> bool:
            record = (topic.version, _encode(topic), topic.arn, topic.id, expected_version)
            connection.execute(schema.REPLACE_TOPIC, record)
            return connection.changes() > 0

        replaced = await self._database.write(update)
        self._notify(topic.arn)
        return replaced

    async def delete(self, arn: str) -> bool:
        def drop(connection: apsw.Connection) -> bool:
            row: Any = connection.execute(schema.DELETE_TOPIC, (arn,)).fetchone()
            if row is None:
                return False
            key, record = row
            connection.execute(schema.DROP_TOPIC, (key,))
            connection.execute(schema.END_COUNTS, (key,))
            connection.execute(schema.END_FILTER_LOG, (key,))
            topic = _decode(record)
            connection.execute(schema.COUNT_TOPICS, (topic.account, -1, -int(topic.fifo)))
            return True

        deleted = await self._database.write(drop, grows=False)
        self._notify(arn)
        return deleted

    async def list_arns(self, account: str, region: str, after: str, n: int) -> list[str]:
        first = topic_arn(region, account, "")
        bounds = (max(first, after), first + schema.AFTER_ALL, n)
        rows: list[Any] = self._database.reader.execute(schema.LIST_TOPICS, bounds).fetchall()
        return [arn for (arn,) in rows]

    async def regions(self, account: str) -> list[str]:
        return schema.TOPIC_REGIONS.of(self._database.reader, account)

    async def count(self, account: str) -> TopicCounts:
        row: Any = self._database.reader.execute(schema.TOPICS_OF_ACCOUNT, (account,)).fetchone()
        return TopicCounts() if row is None else TopicCounts(*row)

    def _notify(self, arn: str) -> None:
        for callback in self.changed:
            callback(arn)
