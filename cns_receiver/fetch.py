"""Fetches URLs of messages, from allowed hosts only: the only requests that the receiver makes itself.

Anybody can post a message, so only URLs on the loopback or on a host named at the start are fetched: the receiver must
not become a proxy into its network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from ipaddress import ip_address

import httpx

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 64 * 1024
PORT_MAX = 65_535


class FetchRefused(Exception):
    """The URL must not be fetched."""


class FetchFailed(Exception):
    """The request failed, or its status is not 200."""


class Fetcher:
    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._clients: dict[bool, httpx.AsyncClient] = {}  # by whether certificates are verified

    def check(self, text: str) -> httpx.URL:
        """Return the parsed URL, so that the checked and the requested URL cannot differ. Raises FetchRefused."""
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL as error:
            raise FetchRefused(f"not a URL: {error}") from error
        host = url.host
        if url.scheme not in ("http", "https") or not host or (url.port or 0) > PORT_MAX:
            raise FetchRefused("not a URL of http or https")
        if not _is_loopback(host) and host.lower() not in self._hosts:
            raise FetchRefused(f"{host} is neither this machine nor named by --confirm-host")
        return url

    async def get(self, url: httpx.URL) -> bytes:
        """Return the body of a 200. Redirects are not followed: they could lead to any host. Raises FetchFailed."""
        body = bytearray()
        try:
            async with asyncio.timeout(TIMEOUT_S), self._client(url).stream("GET", url) as response:
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) >= ANSWER_BYTES_MAX:
                        break
        except (httpx.HTTPError, OSError) as error:  # OSError: TimeoutError is one
            raise FetchFailed(str(error) or type(error).__name__) from error
        if response.status_code != httpx.codes.OK:
            raise FetchFailed(f"HTTP {response.status_code}")
        return bytes(body[:ANSWER_BYTES_MAX])

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    def _client(self, url: httpx.URL) -> httpx.AsyncClient:
        verify = not _is_loopback(url.host)  # where a certificate would prove nothing
        if verify not in self._clients:
            self._clients[verify] = httpx.AsyncClient(verify=verify, trust_env=False)
        return self._clients[verify]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
