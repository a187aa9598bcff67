"""Replays in Cassandra: one partition per topic, changed by conditional writes, and an index of active replays.

An index entry has the id of its replay. It is written before the replay, and removed when the replay has ended or was
replaced. An entry without a replay belongs to a `put` that is under way or was never answered.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from cns.archives.replay import Replay
from cns.stores.cassandra import archive_schema as schema
from cns.stores.contract import ReplayStore
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.store_keys import refuse_bad_keys

ATTEMPTS_MAX = 10

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Replay).decode


@refuse_bad_keys(ReplayStore)
class CassandraReplayStore(ReplayStore):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def put(self, replay: Replay) -> None:
        key = (replay.topic_arn, replay.subscription_arn)
        await self._cassandra.run(schema.ENTER_ACTIVE, *key, replay.id)
        for _ in range(ATTEMPTS_MAX):
            before = await self.get(replay.subscription_arn)
            if before is not None and before.id == replay.id:
                return
            if await self._put(replay, before):
                if before is not None:
                    await self._cassandra.run(schema.LEAVE_ACTIVE, *key, before.id)
                return
        raise StoreUnavailable(f"too many simultaneous changes of the replay of {replay.subscription_arn}")

    async def _put(self, replay: Replay, before: Replay | None) -> bool:
        key = (replay.topic_arn, replay.subscription_arn)
        values = (replay.id, replay.version, _encode(replay))

        async def attempt() -> bool:
            if before is None:
                return await self._cassandra.run_conditional(schema.FIRST_REPLAY, *key, *values)
            return await self._cassandra.run_conditional(schema.NEXT_REPLAY, *values, *key, before.id, before.version)

        return await resolve_lost_write(attempt, lambda: self._is(replay))

    async def get(self, subscription_arn: str) -> Replay | None:
        topic_arn = subscription_arn.rpartition(":")[0]
        if not topic_arn:  # not an ARN
            return None
        rows = await self._cassandra.run(schema.GET_REPLAY, topic_arn, subscription_arn)
        return _decode(rows[0][0]) if rows else None

    async def replace(self, replay: Replay, expected_version: int) -> bool:
        key = (replay.topic_arn, replay.subscription_arn)
        values = (replay.id, replay.version, _encode(replay), *key, replay.id, expected_version)
        replaced = await resolve_lost_write(
            lambda: self._cassandra.run_conditional(schema.NEXT_REPLAY, *values), lambda: self._is(replay)
        )
        if replaced and not replay.active:
            await self._cassandra.run(schema.LEAVE_ACTIVE, *key, replay.id)
        return replaced

    async def remove(self, subscription_arn: str) -> None:
        before = await self.get(subscription_arn)
        if before is None:
            return
        key = (before.topic_arn, subscription_arn)
        with contextlib.suppress(OutcomeUnknown):  # the second attempt decides
            await self._cassandra.run_conditional(schema.REMOVE_REPLAY, *key)
        await self._cassandra.run_conditional(schema.REMOVE_REPLAY, *key)
        await self._cassandra.run(schema.LEAVE_ACTIVE, *key, before.id)

    async def of_topic(self, topic_arn: str) -> list[Replay]:
        return [_decode(record) for (record,) in await self._cassandra.run(schema.OF_TOPIC, topic_arn)]

    async def active(self) -> list[Replay]:
        entries = await self._cassandra.run(schema.ACTIVE)
        replays = await asyncio.gather(*[self.get(subscription) for _, subscription, _ in entries])
        found: list[Replay] = []
        for (topic, subscription, replay_id), replay in zip(entries, replays, strict=True):
            if replay is None:
                continue
            if replay.id == replay_id and replay.active:
                found.append(replay)
            elif replay.id == replay_id:  # a process died after it ended the replay
                await self._cassandra.run(schema.LEAVE_ACTIVE, topic, subscription, replay_id)
        return found

    async def _is(self, replay: Replay) -> bool:
        return await self.get(replay.subscription_arn) == replay
