"""Queue records in Cassandra, changed by conditional writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from cns_common.arn import parse_arn
from cns_common.cassandra.change_listeners import ChangeNotifier
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.cassandra.verified_pages import verified_page
from cns_common.errors import StoreUnavailable
from cns_common.store_keys import refuse_bad_keys
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey
from cqs.redrive.policy import read_redrive_policy
from cqs.stores.cassandra import schema
from cqs.stores.contract import QueueStore

CREATE_TRIES_MAX = 10
READ_AT_ONCE = 100
PAGE_ROWS = 500

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Queue).decode


@refuse_bad_keys(QueueStore)
class CassandraQueueStore(ChangeNotifier[QueueKey], QueueStore):
    def __init__(self, cassandra: Cassandra) -> None:
        super().__init__()
        self._cassandra = cassandra

    # -- writing ------------------------------------------------------------------------------------------------------

    async def create(self, queue: Queue) -> Queue:
        """A crash before the record is written leaves index entries without a record, which readers skip."""
        await self._enter(queue)
        record = (*queue.key, queue.id, queue.version, _target_arn(queue), _encode(queue))
        kept = await self._insert(queue, record)
        if kept.id != queue.id:
            await asyncio.gather(
                self._cassandra.run(schema.LEAVE_NAME, *queue.key, queue.id), self._leave_source(queue)
            )
        await self._notify(queue.key)
        return kept

    async def replace(self, queue: Queue, expected_version: int) -> bool:
        before = await self.get(queue.key)
        if before is None or before.id != queue.id or before.version != expected_version:
            await self._notify(queue.key)
            return False
        await self._enter_source(queue)
        values = (queue.version, _target_arn(queue), _encode(queue), *queue.key, queue.id, expected_version)
        replaced = await self._decide(schema.REPLACE, values, lambda: self._is(queue.key, queue))
        if replaced:
            await self._leave_source(before)
        await self._notify(queue.key)
        return replaced

    async def delete(self, queue: Queue, now_ms: int) -> bool:
        """Write the deletion marks first. They count only once the record is gone, so a crash before the deletion
        changes nothing, and after one `undropped` has the queue."""
        before = await self.get(queue.key)
        deleted = before is not None and before.id == queue.id and await self._delete(before, now_ms)
        await self._notify(queue.key)
        return deleted

    async def _delete(self, queue: Queue, now_ms: int) -> bool:
        await asyncio.gather(
            self._cassandra.run(schema.MARK_DELETED, *queue.key, queue.id, now_ms),
            self._cassandra.run(schema.MARK_UNDROPPED, queue.id, _encode(queue)),
        )
        if not await self._decide(schema.DELETE, (*queue.key, queue.id), lambda: self._is_gone(queue)):
            return False
        await self._cassandra.run(schema.LEAVE_NAME, *queue.key, queue.id)
        await self._leave_source(queue)
        return True

    async def forget_dropped(self, queue_id: str) -> None:
        await self._cassandra.run(schema.FORGET_DROPPED, queue_id)

    async def _insert(self, queue: Queue, record: Sequence[object]) -> Queue:
        for _ in range(CREATE_TRIES_MAX):
            if await self._decide(schema.INSERT, record, lambda: self._is(queue.key, queue)):
                return queue
            existing = await self.get(queue.key)
            if existing is not None:
                return existing
        raise StoreUnavailable(f"{queue.arn} is created and deleted again and again")

    async def _decide(
        self, statement: Statement, values: Sequence[object], ours: Callable[[], Awaitable[bool]]
    ) -> bool:
        return await resolve_lost_write(lambda: self._cassandra.run_conditional(statement, *values), ours)

    async def _enter(self, queue: Queue) -> None:
        await asyncio.gather(
            self._cassandra.run(schema.ENTER_NAME, *queue.key, queue.id),
            self._enter_source(queue),
        )

    async def _enter_source(self, queue: Queue) -> None:
        target = _target_arn(queue)
        if target is not None:
            await self._cassandra.run(schema.ENTER_SOURCE, target, queue.name, queue.id, queue.version)

    async def _leave_source(self, queue: Queue) -> None:
        target = _target_arn(queue)
        if target is not None:
            await self._cassandra.run(schema.LEAVE_SOURCE, target, queue.name, queue.id, queue.version)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def get(self, key: QueueKey) -> Queue | None:
        rows = await self._cassandra.run(schema.GET, *key)
        return _decode(rows[0][0]) if rows else None

    async def list_names(self, account: str, region: str, prefix: str, after: str, n: int) -> list[str]:
        async def read(after: str, n: int) -> list[Row]:
            first = (after, schema.AFTER_ALL) if after >= prefix and after else (prefix, "")
            return await self._cassandra.run(schema.LIST, account, region, *first, prefix + schema.AFTER_ALL, n)

        async def check(entries: Sequence[Row]) -> list[str]:
            live = await self._live(account, region, [name for name, _ in entries])
            return [name for name, queue_id in entries if name in live and live[name][0] == queue_id]

        return await verified_page(read, check, lambda entry: str(entry[0]), after, n)

    async def regions(self, account: str) -> list[str]:
        return await schema.REGIONS.regions(self._cassandra, account)

    async def dead_letter_sources(self, target_arn: str, after: str, n: int) -> list[str]:
        """A queue may have an entry for an earlier version, if its writer was late or died: n rows may be fewer
        names."""
        target = parse_arn(target_arn)
        if target is None:
            return []

        async def read(after: str, n: int) -> list[Row]:
            return await self._cassandra.run(schema.SOURCES, target_arn, after, n)

        async def check(entries: Sequence[Row]) -> list[str]:
            names = list(dict.fromkeys([name for name, *_ in entries]))
            live = await self._live(target.account, target.region, names)
            return [name for name in names if name in live and live[name][1] == target_arn]

        return await verified_page(read, check, lambda entry: str(entry[0]), after, n)

    async def deleted_at_ms(self, key: QueueKey) -> int:
        rows = await self._cassandra.run(schema.DELETED_AT, *key)
        return rows[0][0] or 0

    async def undropped(self) -> list[Queue]:
        found: list[Queue] = []
        after = ""
        while True:
            rows = await self._cassandra.run(schema.UNDROPPED, after, PAGE_ROWS)
            queues = [_decode(record) for (record,) in rows]
            gone = await asyncio.gather(*[self._is_gone(queue) for queue in queues])
            found += [queue for queue, is_gone in zip(queues, gone, strict=True) if is_gone]
            if len(rows) < PAGE_ROWS:
                return found
            after = queues[-1].id

    async def _live(self, account: str, region: str, names: list[str]) -> dict[str, tuple[str, str | None]]:
        """Id and dead-letter target of each queue that exists."""
        chunks = [names[start : start + READ_AT_ONCE] for start in range(0, len(names), READ_AT_ONCE)]
        pages = await self._cassandra.run_each(schema.LIVE, [(account, region, chunk) for chunk in chunks])
        return {name: (queue_id, target) for page in pages for name, queue_id, target in page}

    async def _is(self, key: QueueKey, queue: Queue) -> bool:
        return await self.get(key) == queue

    async def _is_gone(self, queue: Queue) -> bool:
        there = await self.get(queue.key)
        return there is None or there.id != queue.id


def _target_arn(queue: Queue) -> str | None:
    text = queue.attributes.get("RedrivePolicy")
    return read_redrive_policy(text).deadLetterTargetArn if text else None
