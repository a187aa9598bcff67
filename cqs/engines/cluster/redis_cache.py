"""The cache in Redis: a sorted set of messages by the time at which they become visible, changed by Lua scripts
only."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from cns_common.clock import Clock
from cns_common.ids import hex_id
from cns_common.redis_pipe import PipeError, RedisPipe, ReplyError, Word
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster import redis_scripts as lua
from cqs.engines.cluster.cache_contract import (
    EPOCH_DIGITS,
    CacheCounts,
    CachedMessage,
    CacheUnavailable,
    Lease,
    LeaseRequest,
    LeaseResult,
    MaybeOutcome,
)
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, parse_location
from cqs.engines.cluster.unacked import UnackedDeliveries
from cqs.engines.contract import IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome

PREFIX = "cqs"
TIMEOUT_S = 2.0
FILLER_TTL_MS = 5_000
"""A filler that added no page for this long is dead: another process continues the fill."""
PING_TTL_MS = 1_000
DROPPED_TTL_MS = 86_400_000
UNFINISHED_DELETE_MS = 5_000
"""After this time another process finishes a delete. Both may delete the row: the writes are the same."""
MESSAGES_PER_CALL = 1_000
"""Messages per script call. Redis does nothing else while a script runs."""


class _Script:
    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        self.text = lua.HEAD + text
        self.sha = hashlib.sha1(self.text.encode()).hexdigest()


_ADD, _LEASE, _BEGIN_DELETE, _CHECK, _SET_VISIBLE_AT = map(
    _Script, (lua.ADD, lua.LEASE, lua.BEGIN_DELETE, lua.CHECK, lua.SET_VISIBLE_AT)
)
_FORGET, _COUNTS, _PAGE, _BEGIN_EPOCH, _FILL_PAGE = map(
    _Script, (lua.FORGET, lua.COUNTS, lua.PAGE, lua.BEGIN_EPOCH, lua.FILL_PAGE)
)
_END_FILL, _ADD_MISSING, _RESET = map(_Script, (lua.END_FILL, lua.ADD_MISSING, lua.RESET))
_KEEP_HIDDEN, _FINISH_DELETES, _UNFINISHED_DELETES, _UNDO_DELETE = map(
    _Script, (lua.KEEP_HIDDEN, lua.FINISH_DELETES, lua.UNFINISHED_DELETES, lua.UNDO_DELETE)
)

LOST_HIDING = 8
_OUTCOMES: dict[int | None, MaybeOutcome] = {
    None: None,
    9: None,
    LOST_HIDING: Outcome.STALE,
    **{one.value: one for one in Outcome},
}


class RedisCache:
    """See `Cache`. A restarted server is noticed by its run id when the first connection to it is made."""

    def __init__(self, url: str, clock: Clock, unacked: UnackedDeliveries, prefix: str = PREFIX) -> None:
        self._clock = clock
        self._unacked = unacked
        self._prefix = prefix
        self._deleted: dict[str, list[str]] = {}
        self.duplicates = 0
        """Deliveries whose visibility was lost and whose messages were delivered again before they were settled."""
        self._hints: set[asyncio.Task[None]] = set()
        self._pipe = RedisPipe(url, TIMEOUT_S)
        self._redis = Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        """For the subscription only; frequent calls go through the pipe."""

    @property
    def run_id(self) -> str:
        """The run id of the server, as of the newest connection."""
        return self._pipe.run_id

    async def close(self) -> None:
        await cancel_and_wait(self._hints)
        await self._pipe.end()
        await self._redis.aclose()

    def keys(self, queue_id: str) -> list[str]:
        """All keys of a queue are in one cluster slot."""
        return [f"{self._prefix}:{{{queue_id}}}:{part}" for part in lua.PARTS]

    async def ping(self) -> None:
        """Check that the server answers and accepts writes; this also reads its run id."""
        try:
            await (await self._pipe.connection()).execute("SET", f"{self._prefix}:greeting", "", "PX", PING_TTL_MS)
        except (PipeError, ReplyError) as error:
            self._pipe.close()  # the host name may resolve to another server by now
            raise CacheUnavailable(str(error)) from error

    async def _call(self, script: _Script, queue_id: str, *arguments: Word) -> Any:
        try:
            connection = await self._pipe.connection()
            words = (len(lua.PARTS), *self.keys(queue_id), self._pipe.run_id, *arguments)
            try:
                return await connection.execute("EVALSHA", script.sha, *words)
            except ReplyError as error:
                if not str(error).startswith("NOSCRIPT"):
                    raise
                return await connection.execute("EVAL", script.text, *words)
        except (PipeError, ReplyError) as error:
            raise CacheUnavailable(str(error)) from error

    # -- Cache --------------------------------------------------------------------------------------------------------

    async def add(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        generation: int | None = await self._call(_ADD, queue_id, now_ms, *_flat(items))
        return generation

    async def undo_delete(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> None:
        await self._call(_UNDO_DELETE, queue_id, now_ms, *_flat(items))

    async def lease(self, queue_id: str, request: LeaseRequest) -> LeaseResult | None:
        answer = await self._call(
            _LEASE,
            queue_id,
            request.now_ms,
            request.want,
            request.visible_at_ms,
            request.max_receives,
            IN_FLIGHT_MAX,
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
            Lease(
                DeliveryKey(epoch.decode(), number, parse_location(member.decode())),
                deliveries,
                int(first_at),
                bool(spent),
            )
            for member, deliveries, first_at, spent in zip(*[iter(fields)] * 4, strict=True)
        )
        for (_, _, location), taken, first_at_ms, spent in leases:
            if not spent:
                self._unacked.add(queue_id, CachedMessage(location, request.visible_at_ms, taken, first_at_ms))
        return LeaseResult(leases, due_ms, filling=bool(filling))

    async def begin_delete(self, queue_id: str, keys: Sequence[DeliveryKey]) -> list[MaybeOutcome]:
        words = [word for key in keys for word in (key.location.member, key.epoch, key.lease)]
        codes = await self._call(_BEGIN_DELETE, queue_id, self._clock.wall_ms(), *words)
        outcomes = [
            Outcome.DONE if self._outcome(code) is Outcome.STALE and code == LOST_HIDING else _OUTCOMES[code]
            for code in codes or [None] * len(keys)
        ]
        ended = [key.location for key, outcome in zip(keys, outcomes, strict=True) if outcome is not Outcome.STALE]
        self._unacked.forget(queue_id, ended)
        return outcomes

    def finish_delete(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        """Note deleted rows: the next `flush_finished_deletes` removes them from the set of unfinished deletes."""
        self._deleted.setdefault(queue_id, []).extend([location.member for location in locations])

    async def flush_finished_deletes(self) -> None:
        deleted, self._deleted = self._deleted, {}
        for queue_id, members in deleted.items():
            for at in range(0, len(members), MESSAGES_PER_CALL):
                await self._call(_FINISH_DELETES, queue_id, *members[at : at + MESSAGES_PER_CALL])

    async def unfinished_deletes(self, queue_id: str) -> list[MessageLocation]:
        """Messages that were removed for a delete which their process did not finish in time."""
        members = await self._call(_UNFINISHED_DELETES, queue_id, self._clock.wall_ms() - UNFINISHED_DELETE_MS)
        return [parse_location(member.decode()) for member in members]

    def _outcome(self, code: int | None) -> MaybeOutcome:
        self.duplicates += code == LOST_HIDING
        return _OUTCOMES[code]

    async def check(self, queue_id: str, key: DeliveryKey) -> MaybeOutcome:
        return self._outcome(await self._call(_CHECK, queue_id, key.location.member, key.epoch, key.lease))

    async def set_visible_at(self, queue_id: str, key: DeliveryKey, visible_at_ms: int, now_ms: int) -> MaybeOutcome:
        code = await self._call(
            _SET_VISIBLE_AT, queue_id, key.location.member, key.epoch, key.lease, visible_at_ms, now_ms
        )
        outcome = self._outcome(code)
        if code == LOST_HIDING and key.any_lease:
            outcome = Outcome.DONE
        if outcome is Outcome.DONE:
            self._unacked.set_visible_at(queue_id, key.location, visible_at_ms)
        return outcome

    async def postpone(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """Nothing to do: whoever hid the message for longer changed it in Redis."""

    async def keep_hidden(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        for at in range(0, len(items), MESSAGES_PER_CALL):
            await self._call(_KEEP_HIDDEN, queue_id, *_flat(items[at : at + MESSAGES_PER_CALL]))

    async def forget(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        for at in range(0, len(locations), MESSAGES_PER_CALL):
            await self._call(
                _FORGET, queue_id, *[location.member for location in locations[at : at + MESSAGES_PER_CALL]]
            )

    async def counts(self, queue_id: str, now_ms: int, *, require_filled: bool) -> CacheCounts | None:
        counts = await self._call(_COUNTS, queue_id, now_ms, int(require_filled))
        return None if counts is None else CacheCounts(*counts)

    async def page(
        self, queue_id: str, after: tuple[int, str], n: int, *, require_filled: bool
    ) -> list[CachedMessage] | None:
        answer = await self._call(_PAGE, queue_id, *after, n, int(require_filled))
        if answer is None:
            return None
        return [
            CachedMessage(parse_location(member.decode()), int(due), deliveries, int(first_at))
            for member, due, deliveries, first_at in zip(*[iter(answer)] * 4, strict=True)
        ]

    async def begin_epoch(self, queue_id: str, generation: int, filler: str) -> int:
        epoch, now_ms = hex_id()[:EPOCH_DIGITS], self._clock.wall_ms()
        to_fill: int = await self._call(_BEGIN_EPOCH, queue_id, generation, filler, epoch, now_ms, FILLER_TTL_MS)
        return to_fill

    async def fill_page(self, queue_id: str, filler: str, items: Sequence[CachedMessage]) -> bool:
        until_ms = self._clock.wall_ms() + FILLER_TTL_MS
        return bool(await self._call(_FILL_PAGE, queue_id, self._clock.now_ms(), filler, until_ms, *_flat(items)))

    async def end_fill(self, queue_id: str, filler: str) -> None:
        await self._call(_END_FILL, queue_id, filler)

    async def add_missing(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int:
        added = 0
        for at in range(0, len(items), MESSAGES_PER_CALL):
            added += await self._call(_ADD_MISSING, queue_id, now_ms, *_flat(items[at : at + MESSAGES_PER_CALL]))
        return added

    async def reset(self, queue_id: str, generation: int) -> None:
        await self._call(_RESET, queue_id, generation, hex_id()[:EPOCH_DIGITS], DROPPED_TTL_MS)

    # -- wake-ups -----------------------------------------------------------------------------------------------------

    def hint(self, queue_id: str) -> None:
        """Wake waiters in other processes. The notification may be lost."""
        hinting = asyncio.create_task(self._hint(queue_id))
        self._hints.add(hinting)
        hinting.add_done_callback(self._hints.discard)

    async def _hint(self, queue_id: str) -> None:
        with contextlib.suppress(PipeError, ReplyError):
            await (await self._pipe.connection()).execute("PUBLISH", f"{self._prefix}:{{{queue_id}}}:e", "1:")

    @contextlib.asynccontextmanager
    async def listening(self, notify: Callable[[str, int, int | None], None]) -> AsyncIterator[Callable[[], Any]]:
        """Subscribe to notifications; yields a function that reads them until the server is lost. `notify` gets (queue
        id, visible messages, next due time).

        One pattern covers all queues: a subscription per queue would add a round trip to each poll.
        """
        pubsub = self._redis.pubsub(ignore_subscribe_messages=True)
        pattern = f"{self._prefix}:{{*}}:e"
        before, after = len(self._prefix) + 2, len("}:e")

        async def read() -> None:
            async for message in pubsub.listen():
                channel = message["channel"].decode()
                visible, _, due = message["data"].decode().partition(":")
                notify(channel[before:-after], int(visible), int(float(due)) if due else None)

        try:
            await pubsub.psubscribe(pattern)
            yield read
        except (RedisError, OSError) as error:
            raise CacheUnavailable(str(error)) from error
        finally:
            with contextlib.suppress(RedisError, OSError):
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py has no type here


def _flat(items: Sequence[CachedMessage]) -> list[Word]:
    words: list[Word] = []
    for item in items:
        words += (item.location.member, item.visible_at_ms, item.deliveries, item.first_at_ms)
    return words
