"""The cache in Redis: a sorted set of messages by the time at which they become visible, changed by Lua scripts
only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cns_common.clock import Clock
from cns_common.redis.pipe import PipeError, RedisPipe, ReplyError, Word
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cluster.cache_contract import (
    Cache,
    CacheCounts,
    CachedMessage,
    CacheUnavailable,
    LeaseRequest,
    LeaseResult,
    MaybeOutcome,
    MessageLease,
    cache_epoch,
)
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, QueueShard, parse_location
from cqs.engines.cluster.redis import script_calls as calls
from cqs.engines.cluster.redis import scripts as lua
from cqs.engines.cluster.redis.notifications import RedisNotifications
from cqs.engines.cluster.unacked import UnackedDeliveries
from cqs.engines.contract import IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome

PREFIX = "cqs"
TIMEOUT_S = 2.0
FILLER_TTL_MS = 5_000
"""A filler that added no page for this long is dead: another process continues the fill."""
CONTENT_LOST = -3
"""The answer to a filler of a queue that was filled before in this epoch."""
EVICTION_POLICY = "noeviction"
CLUSTER_MODE = "cluster"
PING_TTL_MS = 1_000
IDLE_TTL_MS = 86_400_000
"""How long Redis keeps the content of an unused queue. No visibility timeout (12 h) is longer, and the time of a
delayed message is in its row, so no message becomes visible too early when the rows are read again."""
TASK_TTL_MS = 60_000
SINCE_MARK = "@"
"""In the registry, separates a shard from the layout that placed it there."""
DROPPED_TTL_MS = 86_400_000
UNFINISHED_DELETE_MS = 5_000
"""After this time another process finishes a delete. Both may delete the row: the writes are the same."""
MESSAGES_PER_CALL = 1_000
"""The most messages per script call: Redis does nothing else while a script runs."""


LOST_HIDING, DONE_EARLIER, GONE_EARLIER = 8, 10, 11
_OUTCOMES: dict[int | None, MaybeOutcome] = {
    None: None,
    9: None,
    LOST_HIDING: Outcome.STALE,
    DONE_EARLIER: Outcome.DONE,
    GONE_EARLIER: Outcome.GONE,
    **{one.value: one for one in Outcome},
}


class RedisCache(Cache):
    """Its content is valid for one epoch of the processes (`View`) and one run of the server.

    The content of a shard expires `IDLE_TTL_MS` after its last renewal. The registry, a sorted set in Redis, has the
    shards that were filled in an epoch, by the time of the renewal: if one is missing before it may expire, or the
    registry is, Redis has lost content.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        unacked: UnackedDeliveries,
        prefix: str = PREFIX,
        placed_since: Callable[[QueueShard], int] = lambda _: 0,
    ) -> None:
        self.placed_since = placed_since
        self._clock = clock
        self._unacked = unacked
        self._prefix = prefix
        self._deleted: dict[QueueShard, list[str]] = {}
        self._server = ""
        self.epoch = 0
        self.lost_epoch = 0
        """The last epoch of which content was found missing."""
        self.newest_epoch = 0
        """The newest epoch found in Redis, if it is later than the processes' epoch."""
        self.duplicates = 0
        """Deliveries whose visibility was lost and whose messages were delivered again before they were settled."""
        self._pipe = RedisPipe(url, TIMEOUT_S)
        self.notifications = RedisNotifications(url, self._pipe, prefix, TIMEOUT_S)

    async def close(self) -> None:
        await self.notifications.close()
        await self._pipe.end()

    def keys(self, shard: QueueShard) -> list[str]:
        """All keys of a shard are in one cluster slot."""
        return [f"{self._prefix}:{{{shard.name}}}:{part}" for part in lua.PARTS]

    # -- epochs -------------------------------------------------------------------------------------------------------

    def trust(self, epoch: int, server: str) -> None:
        """Use the content of this epoch, on this server only."""
        self.epoch, self._server = epoch, server

    async def ping(self) -> str:
        """Check that the server answers, accepts writes and evicts nothing. Returns its run id."""
        try:
            await (await self._pipe.connection()).execute("SET", f"{self._prefix}:greeting", "", "PX", PING_TTL_MS)
        except (PipeError, ReplyError) as error:
            self._pipe.close()  # the host name may resolve to another server by now
            raise CacheUnavailable(str(error)) from error
        if complaint := self.policy_complaint():
            self._pipe.close()  # the next connection reads the policy again
            raise CacheUnavailable(complaint)
        return self._pipe.run_id

    def policy_complaint(self) -> str:
        """The fault of the server's mode or eviction policy as of the newest connection; '' if it has none."""
        if self._pipe.facts.get("redis_mode") == CLUSTER_MODE:
            return (
                "Redis is a node of a Redis Cluster, which is not followed: name single servers in CNS_REDIS, over"
                " which the queues are spread, or Sentinels"
            )
        policy = self._pipe.facts.get("maxmemory_policy", EVICTION_POLICY)
        if policy == EVICTION_POLICY:
            return ""
        return f"Redis has maxmemory-policy {policy}, which may evict hidden messages: set {EVICTION_POLICY}"

    async def register(self, epoch: int, before: int) -> None:
        """Begin the registry of a new epoch, in which no queue is filled."""
        await self._execute("ZADD", self._registry(epoch), "+inf", "")
        await self._execute("UNLINK", self._registry(before))

    async def has_content(self, epoch: int) -> bool:
        """Whether the content of the epoch was not lost."""
        return await self._execute("ZSCORE", self._registry(epoch), "") is not None

    def _registry(self, epoch: int) -> str:
        return f"{self._prefix}:filled:{epoch}"

    async def _execute(self, *words: Word) -> Any:
        try:
            return await (await self._pipe.connection()).execute(*words)
        except (PipeError, ReplyError) as error:
            raise CacheUnavailable(str(error)) from error

    def _times(self, now_ms: int, added: Sequence[CachedMessage] = ()) -> str:
        return f"{now_ms}:{self._clock.wall_ms()}{'t' if any(item.tenant for item in added) else ''}"

    async def _call(self, script: calls.Script, shard: QueueShard, *arguments: Word) -> Any:
        try:
            connection = await self._pipe.connection()
            if self._pipe.run_id != self._server:
                raise CacheUnavailable("another server answers")
            words = (len(lua.PARTS), *self.keys(shard), self._run(shard), *arguments)
            try:
                return await connection.execute("EVALSHA", script.sha, *words)
            except ReplyError as error:
                if not str(error).startswith("NOSCRIPT"):
                    raise
                return await connection.execute("EVAL", script.text, *words)
        except (PipeError, ReplyError) as error:
            raise CacheUnavailable(str(error)) from error

    def _run(self, shard: QueueShard) -> str:
        """Identifies the valid content: the epoch, the run of the server, and the layout that placed the shard here; 0
        if the shard was never elsewhere."""
        since = self.placed_since(shard)
        return f"{self.epoch}:{self._server}:{since}" if since else f"{self.epoch}:{self._server}"

    def _member(self, shard: QueueShard) -> str:
        """The shard in the registry, as placed now."""
        since = self.placed_since(shard)
        return f"{shard.name}{SINCE_MARK}{since}" if since else shard.name

    # -- Cache --------------------------------------------------------------------------------------------------------

    async def add(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        generation: int | None = await self._call(calls.ADD, shard, self._times(now_ms, items), *_flat(items))
        return generation

    async def undo_delete(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> None:
        await self._call(calls.UNDO_DELETE, shard, self._times(now_ms, items), *_flat(items))

    async def lease(self, shard: QueueShard, request: LeaseRequest) -> LeaseResult | None:
        answer = await self._call(
            calls.LEASE,
            shard,
            self._times(request.now_ms),
            request.want,
            request.visible_at_ms,
            request.max_receives,
            IN_FLIGHT_MAX // shard.of,
            request.now_ms + SPENT_HIDE_MS,
            int(request.require_filled),
        )
        if answer is None:
            return None
        epoch, filling, why_none, next_due, *rest = answer
        due_ms = int(float(next_due)) if next_due else None
        if not rest:
            return LeaseResult((), due_ms, why_none == 1, bool(filling), why_none == 2)
        number, *fields = rest
        leases = tuple(
            MessageLease(
                DeliveryKey(epoch.decode(), number, parse_location(member.decode())),
                deliveries,
                int(first_at),
                bool(spent),
            )
            for member, deliveries, first_at, spent in zip(*[iter(fields)] * 4, strict=True)
        )
        for (_, _, location), taken, first_at_ms, spent in leases:
            if not spent:
                self._unacked.add(shard, CachedMessage(location, request.visible_at_ms, taken, first_at_ms))
        return LeaseResult(leases, due_ms, filling=bool(filling))

    async def undo_lease(self, shard: QueueShard, leases: Sequence[MessageLease], now_ms: int) -> None:
        if leases:
            epoch, number, _ = leases[0].key
            members = [word for lease in leases for word in (lease.key.location.member, int(lease.spent))]
            await self._call(calls.UNDO_LEASE, shard, self._times(now_ms), epoch, number, *members)

    async def begin_delete(self, shard: QueueShard, keys: Sequence[DeliveryKey], now_ms: int) -> list[MaybeOutcome]:
        words = [word for key in keys for word in (key.location.member, key.epoch, key.lease)]
        codes = await self._call(calls.BEGIN_DELETE, shard, self._times(now_ms), *words)
        outcomes = [self._delete_outcome(code) for code in codes or [None] * len(keys)]
        ended = [key.location for key, outcome in zip(keys, outcomes, strict=True) if outcome is not Outcome.STALE]
        self._unacked.forget(shard, ended)
        return outcomes

    def finish_delete(self, shard: QueueShard, locations: Sequence[MessageLocation]) -> None:
        """Note deleted rows: the next `flush_finished_deletes` removes them from the set of unfinished deletes."""
        self._deleted.setdefault(shard, []).extend([location.member for location in locations])

    async def flush_finished_deletes(self) -> None:
        deleted, self._deleted = self._deleted, {}
        for shard, members in deleted.items():
            for at in range(0, len(members), MESSAGES_PER_CALL):
                await self._call(calls.FINISH_DELETES, shard, *members[at : at + MESSAGES_PER_CALL])

    async def unfinished_deletes(self, shard: QueueShard) -> list[MessageLocation]:
        """Messages that were removed for a delete which their process did not finish in time."""
        members = await self._call(calls.UNFINISHED_DELETES, shard, UNFINISHED_DELETE_MS)
        return [parse_location(member.decode()) for member in members]

    def _delete_outcome(self, code: int | None) -> MaybeOutcome:
        """Deliveries of an earlier epoch are looked up in the rows: these know what was delivered without Redis."""
        outcome = self._outcome(code)
        if code in (DONE_EARLIER, GONE_EARLIER):
            return None
        return Outcome.DONE if code == LOST_HIDING else outcome

    def _outcome(self, code: int | None) -> MaybeOutcome:
        self.duplicates += code == LOST_HIDING
        return _OUTCOMES[code]

    async def check(self, shard: QueueShard, key: DeliveryKey) -> MaybeOutcome:
        return self._outcome(await self._call(calls.CHECK, shard, key.location.member, key.epoch, key.lease))

    async def set_visible_at(
        self, shard: QueueShard, key: DeliveryKey, visible_at_ms: int, now_ms: int
    ) -> MaybeOutcome:
        code = await self._call(
            calls.SET_VISIBLE_AT, shard, key.location.member, key.epoch, key.lease, visible_at_ms, self._times(now_ms)
        )
        outcome = self._outcome(code)
        if code == LOST_HIDING and key.any_lease:
            outcome = Outcome.DONE
        if outcome is Outcome.DONE:
            self._unacked.set_visible_at(shard, key.location, visible_at_ms)
        return outcome

    async def postpone(self, shard: QueueShard, items: Sequence[CachedMessage]) -> None:
        """Does nothing: the process that hid the message for longer changed it in Redis."""

    async def keep_hidden(self, shard: QueueShard, items: Sequence[CachedMessage]) -> None:
        times = self._times(self._clock.now_ms(), items)
        for at in range(0, len(items), MESSAGES_PER_CALL):
            await self._call(calls.KEEP_HIDDEN, shard, times, *_flat(items[at : at + MESSAGES_PER_CALL]))

    async def forget(self, shard: QueueShard, locations: Sequence[MessageLocation]) -> None:
        for at in range(0, len(locations), MESSAGES_PER_CALL):
            await self._call(
                calls.FORGET, shard, *[location.member for location in locations[at : at + MESSAGES_PER_CALL]]
            )

    async def counts(self, shard: QueueShard, now_ms: int, *, require_filled: bool) -> CacheCounts | None:
        counts = await self._call(calls.COUNTS, shard, self._times(now_ms), int(require_filled))
        return None if counts is None else CacheCounts(*counts)

    async def page(
        self, shard: QueueShard, after: tuple[int, str], n: int, *, require_filled: bool
    ) -> list[CachedMessage] | None:
        answer = await self._call(calls.PAGE, shard, *after, n, int(require_filled))
        if answer is None:
            return None
        return _messages(answer)

    async def renew(self, shard: QueueShard) -> None:
        """Keep the content for `IDLE_TTL_MS` from now on."""
        begun_ms = await self._server_ms()
        if await self._call(calls.RENEW, shard, IDLE_TTL_MS):
            await self._execute("ZADD", self._registry(self.epoch), begun_ms, self._member(shard))

    async def forget_expired(self) -> None:
        """Remove shards whose content has expired from the registry."""
        await self._execute(
            "ZREMRANGEBYSCORE", self._registry(self.epoch), "-inf", await self._server_ms() - 2 * IDLE_TTL_MS
        )

    async def _server_ms(self) -> int:
        seconds, microseconds = await self._execute("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    # -- a shard that moves to another server -------------------------------------------------------------------------

    async def filled(self) -> list[str]:
        """The names of the shards that were filled in this epoch."""
        members: list[bytes] = await self._execute("ZRANGE", self._registry(self.epoch), 0, -1)
        return [member.decode().partition(SINCE_MARK)[0] for member in members if member]

    async def take_task(self, task: str, node: str) -> bool:
        """Take a task, for the longest time that it may take. Returns whether this process has it."""
        key = f"{self._prefix}:task:{task}"
        await self._execute("SET", key, node, "NX", "PX", TASK_TTL_MS)
        return bool(await self._execute("GET", key) == node.encode())

    async def held(self, shard: QueueShard, behind: int) -> list[CachedMessage]:
        """A page of all processes' messages in flight, after the first `behind` ones."""
        answer = await self._call(calls.HELD, shard, self._times(self._clock.now_ms()), behind, MESSAGES_PER_CALL)
        return _messages(answer)

    async def states(self, shard: QueueShard, locations: Sequence[MessageLocation]) -> list[CachedMessage]:
        """The messages as known here. Those that are not, are left out."""
        words = await self._call(calls.STATES, shard, *[location.member for location in locations])
        known = [field for four in zip(*[iter(words)] * 4, strict=True) if four[1] for field in four]
        return _messages(known)

    async def begin_epoch(self, shard: QueueShard, generation: int, filler: str) -> int:
        registry = self._registry(self.epoch)
        known = await self.has_content(self.epoch)
        begun_ms = await self._server_ms()
        renewed = await self._execute("ZSCORE", registry, self._member(shard))
        filled = int(renewed is not None and begun_ms < float(renewed) + IDLE_TTL_MS)
        epoch = cache_epoch(self.epoch)
        answer: int = CONTENT_LOST
        if known:
            times = (FILLER_TTL_MS, IDLE_TTL_MS)
            answer = await self._call(calls.BEGIN_EPOCH, shard, generation, filler, epoch, filled, *times)
        if answer <= CONTENT_LOST:
            self.lost_epoch, self.newest_epoch = self.epoch, max(self.newest_epoch, -answer)
            raise CacheUnavailable("Redis has lost content")
        if answer >= 0:
            await self._execute("ZADD", registry, begun_ms, self._member(shard))
        return answer

    async def fill_page(self, shard: QueueShard, filler: str, items: Sequence[CachedMessage]) -> bool:
        times = self._times(self._clock.now_ms(), items)
        return bool(await self._call(calls.FILL_PAGE, shard, times, filler, FILLER_TTL_MS, *_flat(items)))

    async def end_fill(self, shard: QueueShard, filler: str) -> None:
        await self._call(calls.END_FILL, shard, filler)

    async def add_missing(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> int:
        added = 0
        for at in range(0, len(items), MESSAGES_PER_CALL):
            some = items[at : at + MESSAGES_PER_CALL]
            added += await self._call(calls.ADD_MISSING, shard, self._times(now_ms, some), *_flat(some))
        return added

    async def reset(self, shard: QueueShard, generation: int) -> None:
        await self._call(calls.RESET, shard, generation, cache_epoch(self.epoch), DROPPED_TTL_MS)
        if generation == DROPPED:
            await self._execute("ZREM", self._registry(self.epoch), self._member(shard))


def _messages(words: Sequence[Any]) -> list[CachedMessage]:
    return [
        CachedMessage(parse_location(member.decode()), int(due), deliveries, int(first_at))
        for member, due, deliveries, first_at in zip(*[iter(words)] * 4, strict=True)
    ]


def _flat(items: Sequence[CachedMessage]) -> list[Word]:
    words: list[Word] = []
    for item in items:
        words += (item.location.member + item.tenant, item.visible_at_ms, item.deliveries, item.first_at_ms)
    return words
