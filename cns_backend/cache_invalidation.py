"""Changes told from process to process through Redis, and caches that forget what nobody may have told them about.

Redis keeps nothing for who is not listening. So while the line is down, and each time it is up again, everything that
is cached is forgotten: with Redis all others have heard of a change before it is answered, without it they look anew
within `CACHE_AGE_S`. AWS's own promise is 60 s.
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

from cns_backend.acknowledgements import Hearings
from cns_common.ids import hex_id
from cns_common.rpc.protocol_proxy import ChangeSource
from cns_common.task_cancellation import cancel_and_wait

CACHE_AGE_S = 5.0
LISTENING_AGE_S = 60.0
"""Of what is cached while announcements arrive: one may be lost without the line breaking, such as by a failover."""
REDIS_TIMEOUT_S = 2.0
HEARD_S = 0.5
"""How long a change waits for others to hear of it: a process that hangs must not hold up the rest for longer."""
NO_HEARING = 0
"""The number of an answer, which nobody answers."""
WAITING_MAX = 10_000
"""Announcements that wait for Redis; more are dropped, and then the age bounds what others know too late."""

log = structlog.get_logger(__name__)

Key = str | tuple[str, str, str]
Listener = Callable[[Any], None]


class Telling(ChangeSource, Protocol):
    """See `cns_common.cassandra.change_listeners.ChangeNotifier`, which every store of the cluster form is."""

    others_acknowledged: Callable[[], Awaitable[None]]


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """`origin` is the process that tells, which does not listen to itself; it is answered with the number."""

    origin: str
    number: int
    subject: str
    key: Key | int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Announcement).decode


class Announcements:
    """Joins the `changed` callbacks of this process's stores with those of the others."""

    def __init__(
        self,
        redis_url: str,
        channel: str,
        stores: Mapping[str, Telling],
        forget_all: Sequence[Callable[[], None]],
    ) -> None:
        self._redis = _client(redis_url) if redis_url else None
        self._channel = channel
        self._forget_all = forget_all
        self._origin = hex_id()
        self._waiting: asyncio.Queue[tuple[str, bytes, int]] = asyncio.Queue(WAITING_MAX)
        self._hearings = Hearings()
        self._listeners: dict[str, Callable[[], list[Listener]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._listening = asyncio.Event()
        for subject, store in stores.items():
            self._join(subject, store)

    def listen(self, subject: str, listener: Listener) -> None:
        """Have it called with what others announce."""
        self._listeners[subject] = lambda: [listener]

    def announce(self, subject: str, key: Key | int) -> None:
        if self._redis is None:
            return
        number = self._hearings.begin()
        self._put(self._channel, _encode(Announcement(self._origin, number, subject, key)), number)

    async def heard(self) -> None:
        """Until the other processes have heard what was announced so far, if they can."""
        await self._hearings.all_over(HEARD_S if self._listening.is_set() else 0)

    def start(self) -> None:
        loops = [self._age()]
        if self._redis is not None:
            loops += [self._listen(self._redis), self._send(self._redis)]
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def close(self) -> None:
        """What was announced is told before."""
        if self._redis is not None and self._tasks:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._waiting.join(), REDIS_TIMEOUT_S)
        await cancel_and_wait(self._tasks)
        if self._redis is not None:
            await self._redis.aclose()

    def _join(self, subject: str, store: Telling) -> None:
        """What others tell goes to the store's listeners, but not out again."""

        def tell(key: Key) -> None:
            self.announce(subject, key)

        store.changed.append(tell)
        store.others_acknowledged = self.heard
        self._listeners[subject] = lambda: [each for each in store.changed if each is not tell]

    # -- loops --------------------------------------------------------------------------------------------------------

    async def _age(self) -> None:
        """Nothing that is cached gets older than this."""
        while True:
            await asyncio.sleep(LISTENING_AGE_S if self._listening.is_set() else CACHE_AGE_S)
            self._forget()

    async def _listen(self, redis: Redis) -> None:
        while True:
            try:
                await self._listen_until_it_breaks(redis)
            except (RedisError, OSError, msgspec.MsgspecError) as error:
                if self._listening.is_set():
                    log.warning("cache_invalidation.connection_lost", error=str(error))
                self._listening.clear()
                await asyncio.sleep(REDIS_TIMEOUT_S)

    async def _listen_until_it_breaks(self, redis: Redis) -> None:
        async with redis.pubsub() as channel:
            await channel.subscribe(self._channel, self._answers_to(self._origin))
            while True:  # each turn looks whether the line is alive
                message = await channel.get_message(timeout=CACHE_AGE_S)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    self._listening.set()
                    self._forget()
                elif message["channel"] == self._channel.encode():
                    self._tell(message["data"])
                else:
                    self._hearings.answered(int(message["data"]))

    async def _send(self, redis: Redis) -> None:
        while True:
            channel, data, number = await self._waiting.get()
            listeners = 0
            try:
                listeners = await redis.publish(channel, data)
            except (RedisError, OSError) as error:  # others forget by age
                log.debug("cache_invalidation.send_failed", error=str(error))
            finally:
                self._waiting.task_done()
                self._hearings.passed_on(number, listeners)

    def _tell(self, data: bytes) -> None:
        announcement = _decode(data)
        if announcement.origin == self._origin:
            self._hearings.answered(announcement.number)
            return
        for listener in self._listeners.get(announcement.subject, list)():
            listener(announcement.key)
        self._put(self._answers_to(announcement.origin), str(announcement.number).encode(), NO_HEARING)

    def _answers_to(self, origin: str) -> str:
        """The channel on which that process is told who has heard it."""
        return f"{self._channel}:{origin}"

    def _put(self, channel: str, data: bytes, number: int) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait((channel, data, number))

    def _forget(self) -> None:
        for forget in self._forget_all:
            forget()


def _client(url: str) -> Redis:
    return Redis.from_url(url, socket_connect_timeout=REDIS_TIMEOUT_S, health_check_interval=CACHE_AGE_S)
