"""redis-py clients for subscriptions, of one server or of the primary that Sentinels name."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

from cns_common.redis.sentinel import ASK_S, is_sentinel, read_sentinel_url
from cns_common.task_cancellation import wait_at_most

CLOSE_S_MAX = 3.0
"""To end connections: with TLS a server answers that."""


def open_client(url: str, **options: Any) -> Redis:  # redis-py's options
    if not is_sentinel(url):
        return Redis.from_url(url, **options)
    address = read_sentinel_url(url)
    sentinels = Sentinel(
        list(address.sentinels), sentinel_kwargs={"socket_timeout": ASK_S, "socket_connect_timeout": ASK_S}
    )  # type: ignore[no-untyped-call]  # redis-py has no type here
    client: Redis = sentinels.master_for(
        address.name,
        username=address.user or None,
        password=address.password or None,
        db=address.database,
        **options,
    )
    return client


async def close_client(client: Redis) -> None:
    """Also of what asked the Sentinels, which redis-py leaves open. A server that does not answer is left."""
    await wait_at_most(CLOSE_S_MAX, "redis.close", _close(client))


async def _close(client: Redis) -> None:
    await client.aclose()
    if isinstance(client.connection_pool, SentinelConnectionPool):
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            await sentinel.aclose()
