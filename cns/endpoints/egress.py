"""Connects to endpoints: directly, or through the egress proxy by CONNECT (RFC 9110, 9.3.6).

The proxy is asked for an address that the guard allows, or, where the proxy is the guard, for the name. Its answers are
failures of its own (`ProxyFailed`); every byte behind an answer of 2xx is the endpoint's.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from base64 import b64encode

from aiohappyeyeballs import start_connection

from cns.endpoints.address_guard import AddressGuard, is_address
from cns.endpoints.connect import (
    HAPPY_EYEBALLS_DELAY_S,
    NameResolver,
    ProxyFailed,
    allowed_addresses,
    connect_to_allowed,
)
from cns_common.configuration.proxy_url import EgressProxy

ANSWER_BYTES_MAX = 16 * 1024
"""Bytes of the head of the proxy's answer."""
PAUSE_S = 1.0
"""After the proxy was away or refused this service, no connection to it is tried for this long. It is away too when
a connection to it takes longer, to the end of the attempt's time."""
ADDRESSES_TRIED_MAX = 4
"""Of one name, while the proxy answers that it does not reach them."""
_UNREACHED = frozenset({500, 502, 503, 504})
"""Answers of proxies that could not connect; tinyproxy's is 500."""
_UNAUTHORIZED = frozenset({401, 407})
"""tinyproxy answers 401 to a wrong password."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r]")


class Connector:
    """Opens connections of one event loop."""

    def __init__(self, guard: AddressGuard, proxy: EgressProxy | None = None) -> None:
        self._guard = guard
        self._proxy = proxy
        self._resolver = NameResolver()
        self._away_until_s = 0.0
        self._away = ""

    async def connect(self, host: str, port: int, deadline_s: float) -> socket.socket:
        """A socket whose next bytes are the endpoint's. `deadline_s` is loop time.

        Raises OSError (AddressRefused, ProxyFailed, socket.gaierror, TimeoutError and others), or UnicodeError for a
        text that cannot be a name.
        """
        async with asyncio.timeout_at(deadline_s):
            if self._proxy is None:
                return await connect_to_allowed(self._guard, await self._resolver.find(host, port))
            if self._guard.by_name and not is_address(host):
                targets = [host]
            else:
                allowed = allowed_addresses(self._guard, await self._resolver.find(host, port))
                targets = list(dict.fromkeys(str(info[4][0]) for info in allowed))[:ADDRESSES_TRIED_MAX]
        for target in targets[:-1]:
            try:
                return await self._tunnel(self._proxy, target, port, deadline_s)
            except ProxyFailed as error:
                if error.status not in _UNREACHED:
                    raise
        return await self._tunnel(self._proxy, targets[-1], port, deadline_s)

    async def _tunnel(self, proxy: EgressProxy, target: str, port: int, deadline_s: float) -> socket.socket:
        loop = asyncio.get_running_loop()
        if loop.time() < self._away_until_s:
            raise ProxyFailed(self._away, for_all=True)
        opened, started_s = None, loop.time()
        try:
            async with asyncio.timeout_at(deadline_s):
                infos = await self._resolver.find(proxy.host, proxy.port)
                opened = await start_connection(infos, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY_S)
                await loop.sock_sendall(opened, _request(proxy, target, port))
                await _read_answer(opened)
        except BaseException as error:
            if opened is not None:
                opened.close()
            if opened is None and isinstance(error, TimeoutError) and loop.time() - started_s < PAUSE_S:
                raise  # the endpoint, or its name server, has used up the time before
            if isinstance(error, (TimeoutError, OSError, UnicodeError)):
                raise self._failure(error, connected=opened is not None) from None
            raise
        return opened

    def _failure(self, error: Exception, *, connected: bool) -> OSError:
        """What `error` says: of the proxy, or, behind its answer, of the endpoint."""
        if isinstance(error, _SentTooEarly):
            return error
        if isinstance(error, ProxyFailed):
            failed = error
        elif isinstance(error, TimeoutError):
            failed = ProxyFailed("the egress proxy did not answer in time", for_all=not connected)
        else:
            failed = ProxyFailed(f"no connection to the egress proxy: {_reason(error)}", for_all=not connected)
        if failed.for_all:
            self._away, self._away_until_s = str(failed), asyncio.get_running_loop().time() + PAUSE_S
        return failed


def _reason(error: Exception) -> str:
    """Without the proxy's address, which owners of endpoints need not know."""
    if isinstance(error, socket.gaierror):
        return "its name is unknown"
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else "none of its addresses can be reached"


class _SentTooEarly(ConnectionError):
    """The endpoint sent bytes before it was asked."""


def _request(proxy: EgressProxy, target: str, port: int) -> bytes:
    authority = f"[{target}]:{port}" if ":" in target else f"{target}:{port}"
    credentials = ""
    if proxy.user or proxy.password:
        credentials = f"Proxy-Authorization: Basic {b64encode(f'{proxy.user}:{proxy.password}'.encode()).decode()}\r\n"
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n".encode("ascii")


async def _read_answer(opened: socket.socket) -> None:
    """Read the head of the proxy's answer. Raises ProxyFailed unless it is 2xx."""
    loop = asyncio.get_running_loop()
    head = b""
    while b"\r\n\r\n" not in head:
        if len(head) >= ANSWER_BYTES_MAX:
            raise ProxyFailed("the answer of the egress proxy has no end")
        received = await loop.sock_recv(opened, ANSWER_BYTES_MAX)
        if not received:
            raise ProxyFailed("the egress proxy closed the connection")
        head += received
    found = _STATUS.match(head)
    if found is None:
        raise ProxyFailed("the egress proxy's answer is no HTTP")
    status = int(found[1])
    if not 200 <= status < 300:
        raise ProxyFailed(f"the egress proxy answered {status}", status, for_all=status in _UNAUTHORIZED)
    if not head.endswith(b"\r\n\r\n"):
        raise _SentTooEarly("the endpoint sent bytes before a request")
