"""What stands in for Redis while it is away: each process hides the messages of the buckets that it claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import DROPPED, FILLED, Counted, Item, Taken, Verdict, Wish
from cqs.engines.cluster.ids import Key, Place, generation_of
from cqs.engines.cluster.no_redis.bucket_reader import Looks, Tell
from cqs.engines.cluster.no_redis.counts import Surveys
from cqs.engines.cluster.no_redis.visibility import Shelf
from cqs.engines.contract import Outcome

BEAT_S = 1.0
OTHERS_AGAIN_S = 0.1
NEWS_MAX = 50_000
"""Messages sent and deleted meanwhile that Redis is told of when it is back. Of those beyond, the reconciler finds what
was sent; what was deleted is in counts until it would be received."""

log = structlog.get_logger(__name__)


class Outage:
    """See `Cache`. While it is not open it takes messages in and answers that there are none."""

    def __init__(self, looks: Looks, surveys: Surveys, clock: Clock, tell: Tell, *, for_ever: bool) -> None:
        """`for_ever`: there is no Redis that will come back."""
        self._looks = looks
        self._surveys = surveys
        self._clock = clock
        self._tell = tell
        self._sent: dict[str, list[Item]] = {}
        self._deleted: dict[str, list[Place]] = {}
        self._news_left = 0 if for_ever else NEWS_MAX
        self._beating: asyncio.Task[None] | None = None
        self.is_open = False
        self.twice = 0

    async def step(self) -> None:
        """Open it, or go on: to be called every now and then."""
        if self._beating is None:
            await self._looks.beat()
            self._beating = asyncio.create_task(self._beat())
        self.is_open = True
        await self._looks.step()

    async def close(self) -> dict[str, list[Item]]:
        """Returns what is hidden, by queue; it is written down, too."""
        self.is_open = False
        hidden = await self._looks.end()
        if self._beating is not None:
            await cancel_and_wait([self._beating])
            self._beating = None
        return hidden

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self._looks.beat()
            except CnsError as error:  # if it lasts, others take over what is claimed here
                log.warning("redis_outage.heartbeat_failed", error=str(error))

    async def end_life(self) -> None:
        """Say that nothing is hidden here any more."""
        await self._looks.claims.end_life()

    async def until_others_end(self) -> None:
        """Wait until nobody hides anything himself."""
        while await self._looks.claims.others_live():  # noqa: ASYNC110  # they are other processes
            await asyncio.sleep(OTHERS_AGAIN_S)

    def take_news(self) -> tuple[dict[str, list[Item]], dict[str, list[Place]]]:
        """What was sent and what was deleted while Redis was away, by queue."""
        news, self._sent, self._deleted, self._news_left = (self._sent, self._deleted), {}, {}, NEWS_MAX
        return news

    def deleted(self, queue: str, places: Sequence[Place]) -> None:
        if self._news_left > 0:
            self._deleted.setdefault(queue, []).extend(places)
            self._news_left -= len(places)

    def _shelf(self, queue: str) -> Shelf | None:
        return self._looks.shelves.get(queue)

    # -- Cache --------------------------------------------------------------------------------------------------------

    async def add(self, queue: str, items: Sequence[Item], now_ms: int) -> int | None:
        shelf = self._shelf(queue)
        if shelf is not None and shelf.generation == DROPPED:
            return DROPPED
        if self._news_left > 0:
            self._sent.setdefault(queue, []).extend(items)
            self._news_left -= len(items)
        self._surveys.forget(queue)
        if self.is_open and (shelf is None or self._looks.bring(queue, shelf, items) < len(items)):
            self._looks.soon(queue)
        generation = generation_of(items[0].place.bucket)
        return generation if shelf is None else max(generation, shelf.generation)

    async def restore(self, queue: str, items: Sequence[Item], now_ms: int) -> None:
        await self.add_missing(queue, items, now_ms)

    async def take(self, queue: str, wish: Wish) -> Taken | None:
        if not self.is_open or not self._looks.claims.sure:
            return Taken()
        shelf = self._shelf(queue)
        if shelf is None or not (self._clock.wall_ms() < shelf.look_at_ms or shelf.is_ready(wish.want, wish.now_ms)):
            await self._looks.at(queue, wish.want)
            shelf = self._shelf(queue)
        if shelf is None or not self.is_open or not self._looks.claims.sure:
            return Taken()
        if shelf.generation == DROPPED:
            return Taken(dropped=True)
        shelf.used_ms = self._clock.wall_ms()
        return shelf.take(wish)

    async def release(self, queue: str, keys: Sequence[Key]) -> list[Verdict]:
        self._surveys.forget(queue)
        shelf = self._shelf(queue)
        return [self._release(shelf, key) for key in keys]

    def _release(self, shelf: Shelf | None, key: Key) -> Verdict:
        verdict = self._judge(shelf, key)
        if shelf is None or verdict is None:
            return None
        if verdict is Outcome.STALE and key.epoch != shelf.epoch:
            verdict = Outcome.DONE
        if verdict is Outcome.DONE:
            shelf.remove(key.place)
        return verdict

    async def check(self, queue: str, key: Key) -> Verdict:
        return self._judge(self._shelf(queue), key)

    async def hide(self, queue: str, key: Key, visible_at_ms: int, now_ms: int) -> Verdict:
        shelf = self._shelf(queue)
        verdict = self._judge(shelf, key)
        if verdict is Outcome.STALE and key.any_lease:  # of another epoch: counted as delivered twice
            verdict = Outcome.DONE
        if shelf is not None and verdict is Outcome.DONE:
            shelf.hide(key.place, visible_at_ms)
            self._tell(queue, int(visible_at_ms <= now_ms), visible_at_ms)
        return verdict

    def _judge(self, shelf: Shelf | None, key: Key) -> Verdict:
        if shelf is None:
            return None
        verdict = shelf.judge(key)
        self.twice += verdict is Outcome.STALE and key.epoch != shelf.epoch
        return verdict

    async def postpone(self, queue: str, items: Sequence[Item]) -> None:
        shelf = self._shelf(queue)
        if shelf is not None:
            for item in items:
                shelf.postpone(item.place, item.visible_at_ms)

    async def forget(self, queue: str, places: Sequence[Place]) -> None:
        shelf = self._shelf(queue)
        if shelf is not None:
            for place in places:
                shelf.remove(place)

    async def counts(self, queue: str, now_ms: int, *, patient: bool) -> Counted | None:
        await self._looks.rest(queue)
        return await self._surveys.counts(queue, now_ms)

    async def page(self, queue: str, after: tuple[int, str], n: int, *, patient: bool) -> list[Item] | None:
        await self._looks.rest(queue)
        return await self._surveys.page(queue, after, n)

    async def begin(self, queue: str, generation: int, filler: str) -> int:
        """There is nothing to fill: looks do that."""
        return FILLED

    async def fill(self, queue: str, filler: str, items: Sequence[Item]) -> bool:
        return False

    async def filled(self, queue: str, filler: str) -> None:
        """Nothing is ever filled."""

    async def add_missing(self, queue: str, items: Sequence[Item], now_ms: int) -> int:
        shelf = self._shelf(queue)
        return 0 if shelf is None else self._looks.bring(queue, shelf, items)

    async def hold(self, queue: str, items: Sequence[Item]) -> None:
        """What is given out here is hidden here."""

    async def reset(self, queue: str, generation: int) -> None:
        self._surveys.forget(queue)
        self._looks.shelves[queue] = Shelf(generation, self._clock.wall_ms())
        self._tell(queue, 1_000_000, None)
