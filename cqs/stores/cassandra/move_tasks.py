"""Move tasks in Cassandra: a partition per source queue, with the active task's id in a static column.

`active_moves` is an index. An entry is written before its task and removed after the task's end; readers verify it
against the task.
"""

from __future__ import annotations

import asyncio

import msgspec

from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.store_keys import refuse_bad_keys
from cqs.limits import MOVE_TASKS_LISTED_MAX
from cqs.redrive.task import MoveTask
from cqs.stores.contract import MoveTaskStore

LIFE_S = 30 * 86_400
"""The time for which a task is stored: far longer than it can run."""
ENTRY_LIFE_S = 7 * 86_400
"""Removes entries whose writer died before it wrote the task."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS move_tasks(source text, started_ms bigint, id text, active text static, version int,"
    " record blob, PRIMARY KEY(source, started_ms, id)) WITH CLUSTERING ORDER BY (started_ms DESC, id DESC)"
    f" AND default_time_to_live = {LIFE_S}",
    "CREATE TABLE IF NOT EXISTS active_moves(shard int, source text, id text, PRIMARY KEY(shard, source, id))"
    f" WITH default_time_to_live = {ENTRY_LIFE_S}",
)

_ENTER = Statement("INSERT INTO active_moves(shard, source, id) VALUES (0, ?, ?)")
_LEAVE = Statement("DELETE FROM active_moves WHERE shard = 0 AND source = ? AND id = ?")
_ENTRIES = Statement("SELECT source, id FROM active_moves WHERE shard = 0")
_START = Statement(
    "UPDATE move_tasks SET active = ?, version = ?, record = ? WHERE source = ? AND started_ms = ? AND id = ?"
    " IF active = null",
    idempotent=False,
)
_GO_ON = Statement(
    "UPDATE move_tasks SET version = ?, record = ? WHERE source = ? AND started_ms = ? AND id = ? IF version = ?",
    idempotent=False,
)
_END = Statement(
    "UPDATE move_tasks SET active = null, version = ?, record = ? WHERE source = ? AND started_ms = ? AND id = ?"
    " IF version = ?",
    idempotent=False,
)
_NEWEST = Statement("SELECT record FROM move_tasks WHERE source = ? LIMIT ?")
_FORGET = Statement("DELETE FROM move_tasks WHERE source = ? AND started_ms = ? AND id = ?")
_READ_MAX = 2 * MOVE_TASKS_LISTED_MAX

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MoveTask).decode


@refuse_bad_keys(MoveTaskStore)
class CassandraMoveTaskStore(MoveTaskStore):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def create(self, task: MoveTask) -> bool:
        await self._cassandra.run(_ENTER, task.source_arn, task.id)
        values = (task.id, task.version, _encode(task), task.source_arn, task.started_ms, task.id)
        if not await resolve_lost_write(
            lambda: self._cassandra.run_conditional(_START, *values), lambda: self._is(task)
        ):
            await self._cassandra.run(_LEAVE, task.source_arn, task.id)
            return False
        for old in (await self.newest(task.source_arn, _READ_MAX))[MOVE_TASKS_LISTED_MAX:]:
            await self._cassandra.run(_FORGET, old.source_arn, old.started_ms, old.id)
        return True

    async def get(self, source_arn: str, task_id: str) -> MoveTask | None:
        return next((task for task in await self.newest(source_arn, _READ_MAX) if task.id == task_id), None)

    async def replace(self, task: MoveTask, expected_version: int) -> bool:
        values = (task.version, _encode(task), task.source_arn, task.started_ms, task.id, expected_version)
        statement = _GO_ON if task.active else _END
        replaced = await resolve_lost_write(
            lambda: self._cassandra.run_conditional(statement, *values), lambda: self._is(task)
        )
        if replaced and not task.active:
            await self._cassandra.run(_LEAVE, task.source_arn, task.id)
        return replaced

    async def newest(self, source_arn: str, n: int) -> list[MoveTask]:
        rows = await self._cassandra.run(_NEWEST, source_arn, n)
        return [_decode(record) for (record,) in rows if record is not None]

    async def active(self) -> list[MoveTask]:
        entries = await self._cassandra.run(_ENTRIES)
        tasks = await asyncio.gather(*[self.get(source, task_id) for source, task_id in entries])
        ended = [task for task in tasks if task is not None and not task.active]
        for task in ended:  # the process that ended the task died before it removed the entry
            await self._cassandra.run(_LEAVE, task.source_arn, task.id)
        return [task for task in tasks if task is not None and task.active]

    async def _is(self, task: MoveTask) -> bool:
        return await self.get(task.source_arn, task.id) == task
