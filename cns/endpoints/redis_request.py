"""Makes the message for a Redis channel, and reads the channel from a URL."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from cns.endpoints.contract import Request

PORT = 6379


class RedisRequest(Request, frozen=True):
    """`body` is published; `url` names the server and the channel."""

    url: str
    body: bytes


def redis_channel(endpoint: str) -> str:
    """The channel of a checked Redis URL: its whole path, because channels do not belong to a database."""
    return unquote(urlsplit(endpoint).path.removeprefix("/"))
