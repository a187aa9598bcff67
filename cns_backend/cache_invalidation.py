"""Cache invalidation over Redis: a process announces each change, and the others drop their cached copies of it.

Redis keeps no announcement for a process that is not subscribed. A process therefore clears its caches when it
subscribes again, and every `CACHE_AGE_S` while it is not subscribed. With Redis, a change returns after all other
processes acknowledged it; without Redis, they see it within `CACHE_AGE_S`. AWS promises 60 s.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from cns_backend.acknowledgements import PendingAcks
from cns_common.ids import hex_id
from cns_common.redis.client import close_client, open_client
from cns_common.rpc.protocol_proxy import ChangeSource
from cns_common.task_cancellation import cancel_and_wait

CACHE_AGE_S = 5.0
CACHE_AGE_SUBSCRIBED_S = 60.0
"""The same while subscribed: an announcement may be lost although the connection holds, for example in a failover."""
REDIS_TIMEOUT_S = 2.0
ACK_TIMEOUT_S = 0.5
"""The longest time that a change waits for other processes, one of which may hang."""
NO_ACK = 0
"""The number of a message that is not acknowledged."""
QUEUE_MAX = 10_000
"""Announcements that may wait for Redis. More are dropped: other caches are stale until their entries expire."""

log = structlog.get_logger(__name__)

Key = str | tuple[str, str, str]
Listener = Callable[[Any], None]


class SharedStore(ChangeSource, Protocol):
    """A store that other processes cache. See `cns_common.cassandra.change_listeners.ChangeNotifier`."""

    others_acknowledged: Callable[[], Awaitable[None]]


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """`origin` is the process that made the change. It ignores the announcement and gets the acknowledgements, with
    `number`."""

    origin: str
    number: int
    subject: str
    key: Key | int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Announcement).decode


class CacheInvalidation:
    """Passes changes of this process's stores to the other processes, and theirs to the listeners of its stores."""

    def __init__(
        self,
        redis_url: str,
        channel: str,
        stores: Mapping[str, SharedStore],
        forget_all: Sequence[Callable[[], None]],
    ) -> None:
        """`stores` by the subject of their announcements. Without `redis_url` other processes see changes by cache
        age."""
        self._redis = _client(redis_url) if redis_url else None
        self._channel = channel
        self._forget_all = forget_all
        self._origin = hex_id()
        self._outgoing: asyncio.Queue[tuple[str, bytes, int]] = asyncio.Queue(QUEUE_MAX)
        self._acks = PendingAcks()
        self._listeners: dict[str, Callable[[], list[Listener]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._subscribed = asyncio.Event()
        for subject, store in stores.items():
            self._connect(subject, store)

    def listen(self, subject: str, listener: Listener) -> None:
        """Call `listener` with the keys that other processes announce."""
        self._listeners[subject] = lambda: [listener]

    def announce(self, subject: str, key: Key | int) -> None:
        if self._redis is None:
            return
        number = self._acks.begin()
        self._send(self._channel, _encode(Announcement(self._origin, number, subject, key)), number)

    async def acknowledged(self) -> None:
        """Wait until every subscriber acknowledged all announcements so far, or `ACK_TIMEOUT_S` passes. A process that
        is not subscribed itself does not wait."""
        await self._acks.wait(ACK_TIMEOUT_S if self._subscribed.is_set() else 0)

    def start(self) -> None:
        loops = [self._age_loop()]
        if self._redis is not None:
            loops += [self._receive_loop(self._redis), self._send_loop(self._redis)]
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def close(self) -> None:
        """Send the queued announcements, then stop."""
        if self._redis is not None and self._tasks:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._outgoing.join(), REDIS_TIMEOUT_S)
        await cancel_and_wait(self._tasks)
        if self._redis is not None:
            await close_client(self._redis)

    def _connect(self, subject: str, store: SharedStore) -> None:
        """Announce the store's changes, and pass announced changes to its other listeners."""

        def announce(key: Key) -> None:
            self.announce(subject, key)

        store.changed.append(announce)
        store.others_acknowledged = self.acknowledged
        self._listeners[subject] = lambda: [each for each in store.changed if each is not announce]

    # -- loops --------------------------------------------------------------------------------------------------------

    async def _age_loop(self) -> None:
        while True:
            await asyncio.sleep(CACHE_AGE_SUBSCRIBED_S if self._subscribed.is_set() else CACHE_AGE_S)
            self._forget()

    async def _receive_loop(self, redis: Redis) -> None:
        while True:
            try:
                await self._receive_until_it_fails(redis)
            except (RedisError, OSError, msgspec.MsgspecError) as error:
                if self._subscribed.is_set():
                    log.warning("cache_invalidation.connection_lost", error=str(error))
                self._subscribed.clear()
                await asyncio.sleep(REDIS_TIMEOUT_S)

    async def _receive_until_it_fails(self, redis: Redis) -> None:
        async with redis.pubsub() as channel:
            await channel.subscribe(self._channel, self._ack_channel(self._origin))
            while True:  # each call also checks the connection
                message = await channel.get_message(timeout=CACHE_AGE_S)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    self._subscribed.set()
                    self._forget()
                elif message["channel"] == self._channel.encode():
                    self._received(message["data"])
                else:
                    self._acks.acknowledge(int(message["data"]))

    async def _send_loop(self, redis: Redis) -> None:
        while True:
            channel, data, number = await self._outgoing.get()
            subscribers = 0
            try:
                subscribers = await redis.publish(channel, data)
            except (RedisError, OSError) as error:  # other processes see the change by cache age
                log.debug("cache_invalidation.send_failed", error=str(error))
            finally:
                self._outgoing.task_done()
                self._acks.expect(number, subscribers)

    def _received(self, data: bytes) -> None:
        announcement = _decode(data)
        if announcement.origin == self._origin:
            self._acks.acknowledge(announcement.number)
            return
        for listener in self._listeners.get(announcement.subject, list)():
            listener(announcement.key)
        self._send(self._ack_channel(announcement.origin), str(announcement.number).encode(), NO_ACK)

    def _ack_channel(self, origin: str) -> str:
        """The channel on which a process receives the acknowledgements of its announcements."""
        return f"{self._channel}:{origin}"

    def _send(self, channel: str, data: bytes, number: int) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._outgoing.put_nowait((channel, data, number))

    def _forget(self) -> None:
        for forget in self._forget_all:
            forget()


def _client(url: str) -> Redis:
    return open_client(url, socket_connect_timeout=REDIS_TIMEOUT_S, health_check_interval=CACHE_AGE_S)
