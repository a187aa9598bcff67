"""The cache in Redis: a sorted set of messages by the time they become visible, changed by scripts alone."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from common.clock import Clock
from common.ids import hex_id
from cqs.engines.contract import IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome
from cqs.engines.cqs import lua
from cqs.engines.cqs.cache import CacheAway, Counted, Item, Lease, Taken, Wish
from cqs.engines.cqs.places import Key, Place, place_of

PREFIX = "cqs"
TIMEOUT_S = 2.0
CONNECTIONS_MAX = 32
POOL_WAIT_S = 10.0
"""Callers beyond the connections wait so long for one: many callers are no sign of a server that is away."""
FILLER_LIFE_MS = 5_000
"""A filler that has not added a page for so long has died: another goes on."""
DROPPED_LIFE_MS = 86_400_000
EPOCH_DIGITS = 16


class _Script:
    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        self.text = lua.HEAD + text
        self.sha = hashlib.sha1(self.text.encode()).hexdigest()


_ADD, _TAKE, _RELEASE, _CHECK, _HIDE = map(_Script, (lua.ADD, lua.TAKE, lua.RELEASE, lua.CHECK, lua.HIDE))
_FORGET, _COUNTS, _PAGE, _BEGIN, _FILL = map(_Script, (lua.FORGET, lua.COUNTS, lua.PAGE, lua.BEGIN, lua.FILL))
_FILLED, _ADD_MISSING, _RESET = map(_Script, (lua.FILLED, lua.ADD_MISSING, lua.RESET))


_OUTCOMES: dict[int | None, Outcome | None] = {None: None, 9: None, **{one.value: one for one in Outcome}}


class RedisCache:
    """See `Cache`. A server that was started anew is noticed by its run id, on the first connection made to it."""

    def __init__(self, url: str, clock: Clock, prefix: str = PREFIX) -> None:
        self._clock = clock
        self._prefix = prefix
        self._run = ""
        pool = BlockingConnectionPool.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            max_connections=CONNECTIONS_MAX,
            timeout=POOL_WAIT_S,
            retry=Retry(NoBackoff(), 0),  # the engine decides what to do without it
            redis_connect_func=self._meet,
        )
        self._redis = Redis.from_pool(pool)

    async def close(self) -> None:
        await self._redis.aclose()

    async def _meet(self, connection: Connection) -> None:
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        facts: bytes = await connection.read_response()
        lines = dict(line.split(":", 1) for line in facts.decode().splitlines() if ":" in line)
        self._run = lines["run_id"]

    def keys(self, queue: str) -> list[str]:
        """All of one queue in one slot."""
        return [f"{self._prefix}:{{{queue}}}:{part}" for part in lua.PARTS]

    async def _call(self, script: _Script, queue: str, *arguments: object) -> Any:
        """As a task: the client's time-outs need one, and API calls run without (`common.eager`)."""
        return await asyncio.create_task(self._run_script(script, queue, arguments))

    async def _run_script(self, script: _Script, queue: str, arguments: tuple[object, ...]) -> Any:
        try:
            if not self._run:
                await self._redis.ping()
            words: list[Any] = [*self.keys(queue), self._run, *arguments]
            try:
                return await self._redis.evalsha(script.sha, len(lua.PARTS), *words)
            except NoScriptError:
                return await self._redis.eval(script.text, len(lua.PARTS), *words)
        except (RedisError, OSError) as error:
            raise CacheAway(str(error)) from error

    # -- Cache --------------------------------------------------------------------------------------------------------

    async def add(self, queue: str, items: Sequence[Item], now_ms: int) -> int | None:
        generation: int | None = await self._call(_ADD, queue, now_ms, *_flat(items))
        return generation

    async def take(self, queue: str, wish: Wish) -> Taken | None:
        answer = await self._call(
            _TAKE,
            queue,
            wish.now_ms,
            wish.want,
            wish.visible_at_ms,
            wish.max_receives,
            IN_FLIGHT_MAX,
            wish.now_ms + SPENT_HIDE_MS,
            int(wish.patient),
        )
        if answer is None:
            return None
        epoch, filling, why_none, next_due, *rest = answer
        due_ms = int(float(next_due)) if next_due else None
        if not rest:
            return Taken((), due_ms, why_none == 1, bool(filling), why_none == 2)
        number, *fields = rest
        leases = tuple(
            Lease(Key(epoch.decode(), number, place_of(member.decode())), deliveries, int(first_at), bool(spent))
            for member, deliveries, first_at, spent in zip(*[iter(fields)] * 4, strict=True)
        )
        return Taken(leases, due_ms, filling=bool(filling))

    async def release(self, queue: str, keys: Sequence[Key]) -> list[Outcome | None]:
        words = [word for key in keys for word in (key.place.member, key.epoch, key.lease)]
        outcomes = await self._call(_RELEASE, queue, *words)
        return [None] * len(keys) if outcomes is None else [_OUTCOMES[outcome] for outcome in outcomes]

    async def check(self, queue: str, key: Key) -> Outcome | None:
        outcome = await self._call(_CHECK, queue, key.place.member, key.epoch, key.lease)
        return _OUTCOMES[outcome]

    async def hide(self, queue: str, key: Key, visible_at_ms: int, now_ms: int) -> Outcome | None:
        outcome = await self._call(_HIDE, queue, key.place.member, key.epoch, key.lease, visible_at_ms, now_ms)
        return _OUTCOMES[outcome]

    async def forget(self, queue: str, places: Sequence[Place]) -> None:
        await self._call(_FORGET, queue, *[place.member for place in places])

    async def counts(self, queue: str, now_ms: int, *, patient: bool) -> Counted | None:
        counts = await self._call(_COUNTS, queue, now_ms, int(patient))
        return None if counts is None else Counted(*counts)

    async def page(self, queue: str, after: tuple[int, str], n: int, *, patient: bool) -> list[Item] | None:
        answer = await self._call(_PAGE, queue, *after, n, int(patient))
        if answer is None:
            return None
        return [
            Item(place_of(member.decode()), int(due), deliveries, int(first_at))
            for member, due, deliveries, first_at in zip(*[iter(answer)] * 4, strict=True)
        ]

    async def begin(self, queue: str, generation: int, filler: str) -> int:
        epoch, now_ms = hex_id()[:EPOCH_DIGITS], self._clock.wall_ms()
        to_fill: int = await self._call(_BEGIN, queue, generation, filler, epoch, now_ms, FILLER_LIFE_MS)
        return to_fill

    async def fill(self, queue: str, filler: str, items: Sequence[Item]) -> bool:
        until_ms = self._clock.wall_ms() + FILLER_LIFE_MS
        return bool(await self._call(_FILL, queue, self._clock.now_ms(), filler, until_ms, *_flat(items)))

    async def filled(self, queue: str, filler: str) -> None:
        await self._call(_FILLED, queue, filler)

    async def add_missing(self, queue: str, items: Sequence[Item], now_ms: int) -> int:
        added: int = await self._call(_ADD_MISSING, queue, now_ms, *_flat(items))
        return added

    async def reset(self, queue: str, generation: int) -> None:
        await self._call(_RESET, queue, generation, hex_id()[:EPOCH_DIGITS], DROPPED_LIFE_MS)

    # -- wake-ups -----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def listening(self, tell: Callable[[str, int, int | None], None]) -> AsyncIterator[Callable[[], Any]]:
        """`tell(queue, visible, due)` whenever messages of a queue came; yields what reads until the server is lost.

        One pattern for all queues: a subscription a queue would be one more round trip for each poll.
        """
        pubsub = self._redis.pubsub(ignore_subscribe_messages=True)
        pattern = f"{self._prefix}:{{*}}:e"
        before, after = len(self._prefix) + 2, len("}:e")

        async def read() -> None:
            async for message in pubsub.listen():
                channel = message["channel"].decode()
                visible, _, due = message["data"].decode().partition(":")
                tell(channel[before:-after], int(visible), int(float(due)) if due else None)

        try:
            await pubsub.psubscribe(pattern)
            yield read
        except (RedisError, OSError) as error:
            raise CacheAway(str(error)) from error
        finally:
            with contextlib.suppress(RedisError, OSError):
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py has none here


def _flat(items: Sequence[Item]) -> list[object]:
    words: list[object] = []
    for item in items:
        words += (item.place.member, item.visible_at_ms, item.deliveries, item.first_at_ms)
    return words
