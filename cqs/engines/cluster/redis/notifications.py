"""Notifications between processes that a queue has messages, by Redis' publish and subscribe; each may be lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from cns_common.redis.client import close_client, open_client
from cns_common.redis.pipe import PipeError, RedisPipe, ReplyError
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import CacheUnavailable
from cqs.engines.cluster.ids import queue_of


class RedisNotifications:
    """One server's notifications. Hints go through the cache's `pipe`; the subscription has a connection of its own."""

    def __init__(self, url: str, pipe: RedisPipe, prefix: str, timeout_s: float) -> None:
        self._pipe = pipe
        self._prefix = prefix
        self._hints: set[asyncio.Task[None]] = set()
        self._redis = open_client(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0)
        )

    async def close(self) -> None:
        await cancel_and_wait(self._hints)
        await close_client(self._redis)

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
                notify(queue_of(channel[before:-after]), int(visible), int(float(due)) if due else None)

        try:
            await pubsub.psubscribe(pattern)
            yield read
        except (RedisError, OSError) as error:
            raise CacheUnavailable(str(error)) from error
        finally:
            with contextlib.suppress(RedisError, OSError):
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py has no type here
