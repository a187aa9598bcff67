"""The cache in Redis: a sorted set of messages by the time they become visible, changed by scripts alone."""

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
from cqs.engines.cluster.cache_contract import EPOCH_DIGITS, CacheAway, Counted, Item, Lease, Taken, Verdict, Wish
from cqs.engines.cluster.delivered import Held
from cqs.engines.cluster.ids import Key, Place, place_of
from cqs.engines.contract import IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome

PREFIX = "cqs"
TIMEOUT_S = 2.0
FILLER_LIFE_MS = 5_000
"""A filler that has not added a page for so long has died: another goes on."""
GREETING_LIFE_MS = 1_000
DROPPED_LIFE_MS = 86_400_000
UNDELETED_MS = 5_000
"""What takes longer to be deleted is deleted by another process as well: it is the same write."""
AT_ONCE = 1_000
"""Messages of one script: Redis does nothing else meanwhile."""


class _Script:
    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        self.text = lua.HEAD + text
        self.sha = hashlib.sha1(self.text.encode()).hexdigest()


_ADD, _TAKE, _RELEASE, _CHECK, _HIDE = map(_Script, (lua.ADD, lua.TAKE, lua.RELEASE, lua.CHECK, lua.HIDE))
_FORGET, _COUNTS, _PAGE, _BEGIN, _FILL = map(_Script, (lua.FORGET, lua.COUNTS, lua.PAGE, lua.BEGIN, lua.FILL))
_FILLED, _ADD_MISSING, _RESET = map(_Script, (lua.FILLED, lua.ADD_MISSING, lua.RESET))
_HOLD, _DELETED, _UNDELETED, _RESTORE = map(_Script, (lua.HOLD, lua.DELETED, lua.UNDELETED, lua.RESTORE))

LOST = 8
_VERDICTS: dict[int | None, Verdict] = {None: None, 9: None, LOST: Outcome.STALE, **{one.value: one for one in Outcome}}


class RedisCache:
    """See `Cache`. A server that was started anew is noticed by its run id, on the first connection made to it."""

    def __init__(self, url: str, clock: Clock, held: Held, prefix: str = PREFIX) -> None:
        self._clock = clock
        self._held = held
        self._prefix = prefix
        self._deleted: dict[str, list[str]] = {}
        self.twice = 0
        """Deliveries whose hiding was lost, and which others had got as well by the time they were settled."""
        self._hints: set[asyncio.Task[None]] = set()
        self._pipe = RedisPipe(url, TIMEOUT_S)
        self._redis = Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        """For wake-ups alone: what is asked often goes through the pipe."""

    @property
    def run(self) -> str:
        """Which server it is, as of the newest connection."""
        return self._pipe.run

    async def close(self) -> None:
        await cancel_and_wait(self._hints)
        await self._pipe.end()
        await self._redis.aclose()

    def keys(self, queue: str) -> list[str]:
        """All of one queue in one slot."""
        return [f"{self._prefix}:{{{queue}}}:{part}" for part in lua.PARTS]

    async def greet(self) -> None:
        """See that it answers and may be written, and which server it is."""
        try:
            await (await self._pipe.link()).ask("SET", f"{self._prefix}:greeting", "", "PX", GREETING_LIFE_MS)
        except (PipeError, ReplyError) as error:
            self._pipe.close()  # the name may mean another server by now
            raise CacheAway(str(error)) from error

    async def _call(self, script: _Script, queue: str, *arguments: Word) -> Any:
        try:
            link = await self._pipe.link()
            words = (len(lua.PARTS), *self.keys(queue), self._pipe.run, *arguments)
            try:
                return await link.ask("EVALSHA", script.sha, *words)
            except ReplyError as error:
                if not str(error).startswith("NOSCRIPT"):
                    raise
                return await link.ask("EVAL", script.text, *words)
        except (PipeError, ReplyError) as error:
            raise CacheAway(str(error)) from error

    # -- Cache --------------------------------------------------------------------------------------------------------

    async def add(self, queue: str, items: Sequence[Item], now_ms: int) -> int | None:
        generation: int | None = await self._call(_ADD, queue, now_ms, *_flat(items))
        return generation

    async def restore(self, queue: str, items: Sequence[Item], now_ms: int) -> None:
        await self._call(_RESTORE, queue, now_ms, *_flat(items))

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
        for (_, _, place), taken, first_at_ms, spent in leases:
            if not spent:
                self._held.put(queue, Item(place, wish.visible_at_ms, taken, first_at_ms))
        return Taken(leases, due_ms, filling=bool(filling))

    async def release(self, queue: str, keys: Sequence[Key]) -> list[Verdict]:
        words = [word for key in keys for word in (key.place.member, key.epoch, key.lease)]
        outcomes = await self._call(_RELEASE, queue, self._clock.wall_ms(), *words)
        verdicts = [
            Outcome.DONE if self._verdict(outcome) is Outcome.STALE and outcome == LOST else _VERDICTS[outcome]
            for outcome in outcomes or [None] * len(keys)
        ]
        ended = [key.place for key, verdict in zip(keys, verdicts, strict=True) if verdict is not Outcome.STALE]
        self._held.forget(queue, ended)
        return verdicts

    def deleted(self, queue: str, places: Sequence[Place]) -> None:
        """Their rows are gone: what is kept until then may go with the next `clear_deleted`."""
        self._deleted.setdefault(queue, []).extend([place.member for place in places])

    async def clear_deleted(self) -> None:
        deleted, self._deleted = self._deleted, {}
        for queue, members in deleted.items():
            for at in range(0, len(members), AT_ONCE):
                await self._call(_DELETED, queue, *members[at : at + AT_ONCE])

    async def undeleted(self, queue: str) -> list[Place]:
        """What was taken out to be deleted by a process that has not come to do it."""
        members = await self._call(_UNDELETED, queue, self._clock.wall_ms() - UNDELETED_MS)
        return [place_of(member.decode()) for member in members]

    def _verdict(self, outcome: int | None) -> Verdict:
        self.twice += outcome == LOST
        return _VERDICTS[outcome]

    async def check(self, queue: str, key: Key) -> Verdict:
        return self._verdict(await self._call(_CHECK, queue, key.place.member, key.epoch, key.lease))

    async def hide(self, queue: str, key: Key, visible_at_ms: int, now_ms: int) -> Verdict:
        outcome = await self._call(_HIDE, queue, key.place.member, key.epoch, key.lease, visible_at_ms, now_ms)
        verdict = self._verdict(outcome)
        if outcome == LOST and key.any_lease:
            verdict = Outcome.DONE
        if verdict is Outcome.DONE:
            self._held.move(queue, key.place, visible_at_ms)
        return verdict

    async def postpone(self, queue: str, items: Sequence[Item]) -> None:
        """Redis was told itself when it was hidden longer."""

    async def hold(self, queue: str, items: Sequence[Item]) -> None:
        for at in range(0, len(items), AT_ONCE):
            await self._call(_HOLD, queue, *_flat(items[at : at + AT_ONCE]))

    async def forget(self, queue: str, places: Sequence[Place]) -> None:
        for at in range(0, len(places), AT_ONCE):
            await self._call(_FORGET, queue, *[place.member for place in places[at : at + AT_ONCE]])

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
        added = 0
        for at in range(0, len(items), AT_ONCE):
            added += await self._call(_ADD_MISSING, queue, now_ms, *_flat(items[at : at + AT_ONCE]))
        return added

    async def reset(self, queue: str, generation: int) -> None:
        await self._call(_RESET, queue, generation, hex_id()[:EPOCH_DIGITS], DROPPED_LIFE_MS)

    # -- wake-ups -----------------------------------------------------------------------------------------------------

    def hint(self, queue: str) -> None:
        """Wakes who waits, if it arrives."""
        hinting = asyncio.create_task(self._hint(queue))
        self._hints.add(hinting)
        hinting.add_done_callback(self._hints.discard)

    async def _hint(self, queue: str) -> None:
        with contextlib.suppress(PipeError, ReplyError):
            await (await self._pipe.link()).ask("PUBLISH", f"{self._prefix}:{{{queue}}}:e", "1:")

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


def _flat(items: Sequence[Item]) -> list[Word]:
    words: list[Word] = []
    for item in items:
        words += (item.place.member, item.visible_at_ms, item.deliveries, item.first_at_ms)
    return words
