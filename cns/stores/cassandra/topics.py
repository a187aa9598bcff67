"""Topics in Cassandra."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns.stores.cassandra import schema
from cns.stores.cassandra.counts import TopicCounters
from cns.stores.contract import TopicStore
from cns.topics.topic import Topic, TopicCounts
from cns_common.cassandra.change_listeners import ChangeNotifier
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row
from cns_common.cassandra.verified_pages import verified_page
from cns_common.errors import StoreUnavailable
from cns_common.store_keys import refuse_bad_keys

ATTEMPTS_MAX = 10

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Topic).decode


@refuse_bad_keys(TopicStore)
class CassandraTopicStore(ChangeNotifier[str], TopicStore):
    def __init__(self, cassandra: Cassandra) -> None:
        super().__init__()
        self._cassandra = cassandra
        self._counts = TopicCounters(cassandra)

    async def create(self, topic: Topic) -> Topic:
        """Write the index entry first: an entry that a crash leaves without a topic is skipped."""
        entry = (topic.account, topic.region, topic.arn, topic.id)
        await self._cassandra.run(schema.ENTER_TOPIC, *entry)
        stored = await self._insert(topic)
        if stored.id == topic.id:
            await self._counts.count_topic(topic, 1)
        else:
            await self._cassandra.run(schema.LEAVE_TOPIC, *entry)
        await self._notify(topic.arn)
        return stored

    async def _insert(self, topic: Topic) -> Topic:
        async def ours() -> bool:
            return await self.get(topic.arn) == topic

        values = (topic.arn, topic.id, topic.version, _encode(topic))
        for _ in range(ATTEMPTS_MAX):
            if await resolve_lost_write(lambda: self._cassandra.run_conditional(schema.INSERT_TOPIC, *values), ours):
                return topic
            existing = await self.get(topic.arn)
            if existing is not None:
                return existing
        raise StoreUnavailable(f"too many simultaneous changes of {topic.arn}")

    async def get(self, arn: str) -> Topic | None:
        rows = await self._cassandra.run(schema.GET_TOPIC, arn)
        return _decode(rows[0][0]) if rows else None

    async def replace(self, topic: Topic, expected_version: int) -> bool:
        async def ours() -> bool:
            return await self.get(topic.arn) == topic

        values = (topic.version, _encode(topic), topic.arn, topic.id, expected_version)
        replaced = await resolve_lost_write(
            lambda: self._cassandra.run_conditional(schema.REPLACE_TOPIC, *values), ours
        )
        await self._notify(topic.arn)
        return replaced

    async def delete(self, arn: str) -> bool:
        deleted = await self._delete(arn)
        await self._notify(arn)
        return deleted

    async def _delete(self, arn: str) -> bool:
        """Mark the topic for the sweep of its subscriptions first. The sweep ignores the mark while the topic exists.

        The mark has the level that the topic has when it is deleted, so the sweep looks at every level with entries.
        """
        for _ in range(ATTEMPTS_MAX):
            topic = await self.get(arn)
            rows = await self._cassandra.run(schema.LEVEL_OF_TOPIC, arn)
            if topic is None or not rows or rows[0][0] != topic.id:
                return False
            level = rows[0][1]
            await self._cassandra.run(schema.MARK_DROPPED, topic.id, arn, level)
            if await self._delete_at(topic, level):
                await self._cassandra.run(schema.LEAVE_TOPIC, topic.account, topic.region, arn, topic.id)
                await self._counts.count_topic(topic, -1)
                return True
        raise StoreUnavailable(f"too many simultaneous changes of {arn}")

    async def _delete_at(self, topic: Topic, level: int) -> bool:
        async def ours() -> bool:
            there = await self.get(topic.arn)
            return there is None or there.id != topic.id

        return await resolve_lost_write(
            lambda: self._cassandra.run_conditional(schema.DELETE_TOPIC, topic.arn, topic.id, level), ours
        )

    async def list_arns(self, account: str, region: str, after: str, n: int) -> list[str]:
        async def read(after: str, n: int) -> list[Row]:
            return await self._cassandra.run(schema.LIST_TOPICS, account, region, after, n)

        async def check(entries: Sequence[Row]) -> list[str]:
            if not entries:
                return []
            live = {
                (arn, topic_id)
                for arn, topic_id in await self._cassandra.run(schema.LIVE_TOPICS, [arn for arn, _ in entries])
            }
            return [arn for arn, topic_id in entries if (arn, topic_id) in live]

        return await verified_page(read, check, lambda entry: str(entry[0]), after, n)

    async def regions(self, account: str) -> list[str]:
        return await schema.TOPIC_REGIONS.regions(self._cassandra, account)

    async def count(self, account: str) -> TopicCounts:
        counts = await self._counts.account_counts(account)
        return TopicCounts(counts.topics - counts.fifo_topics, counts.fifo_topics)
