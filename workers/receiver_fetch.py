"""The only requests the fault receiver makes itself: to the URLs in messages, of hosts it may ask.

Anybody can post a message, so a URL in one is visited only on the loopback or on a host named at the start: the
receiver must not become a way to make requests from where it runs.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

import aiohttp
from yarl import URL

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 64 * 1024


class FetchRefused(Exception):
    """The URL is not one to visit."""


class FetchFailed(Exception):
    """The URL was visited in vain."""


class Fetcher:
    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._session: aiohttp.ClientSession | None = None

    def checked(self, text: str) -> URL:
        """The URL as it will be requested, so that what is checked and what is asked cannot differ."""
        try:
            url = URL(text, encoded=True)
            host = url.host
        except ValueError as error:
            raise FetchRefused(f"not a URL: {error}") from error
        if url.scheme not in ("http", "https") or not host:
            raise FetchRefused("not a URL of http or https")
        if not _is_loopback(host) and host.lower() not in self._hosts:
            raise FetchRefused(f"{host} is neither this machine nor given by --confirm-host")
        return url

    async def get(self, url: URL) -> bytes:
        """The body of a 200; redirects are not followed, they could lead anywhere."""
        trusted_path = _is_loopback(url.host or "")  # where a certificate would prove nothing
        try:
            async with self._open_session().get(url, allow_redirects=False, ssl=not trusted_path) as response:
                body = await response.content.read(ANSWER_BYTES_MAX)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # OSError: TimeoutError is one
            raise FetchFailed(str(error) or type(error).__name__) from error
        if response.status != 200:
            raise FetchFailed(f"HTTP {response.status}")
        return body

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        return self._session


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
