"""Connects to a name: resolves it, with a short cache, and connects to one of its allowed addresses."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Sequence

from aiohappyeyeballs import AddrInfoType, start_connection

from cns.endpoints.address_guard import AddressGuard, AddressRefused, is_address
from cns.endpoints.outcome import Cause, Failed

DNS_CACHE_S = 10.0
CONNECTION_AGE_S_MAX = 60.0
"""A connection that was opened longer ago is used no more: its name may stand for another server by now."""
NAMES_CACHED_MAX = 1_000
HAPPY_EYEBALLS_DELAY_S = 0.25
"""Delay before the next address is tried in parallel (RFC 8305)."""

_ERRNO = re.compile(r"\[Errno (-?[0-9]+)\] (?:Connect call failed \('([^']*)', ([0-9]+)[^)]*\))?")
"""In the text of an OSError, asyncio's for one address included."""


class ProxyFailed(ConnectionError):
    """The egress proxy failed. `for_all`: for every endpoint, since it is away or refuses this service; else it may
    concern this endpoint alone. `status`: of its answer, if it gave one."""

    def __init__(self, text: str, status: int = 0, *, for_all: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.for_all = for_all


class NameResolver:
    """Resolves names on one event loop. Concurrent calls for one name share a lookup."""

    def __init__(self) -> None:
        self._lookups: dict[tuple[str, int], asyncio.Task[Sequence[AddrInfoType]]] = {}

    async def find(self, host: str, port: int) -> Sequence[AddrInfoType]:
        """Raises socket.gaierror, or UnicodeError for a text that cannot be a name."""
        if is_address(host):
            return await _look_up(host, port, 0)
        key = (host, port)
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = asyncio.ensure_future(_look_up(host, port, socket.AI_ADDRCONFIG))
            self._lookups[key] = lookup
            lookup.add_done_callback(lambda done: self._cache(key, done))
        return await asyncio.shield(lookup)

    def _cache(self, key: tuple[str, int], lookup: asyncio.Task[Sequence[AddrInfoType]]) -> None:
        found = not lookup.cancelled() and lookup.exception() is None
        if found and len(self._lookups) <= NAMES_CACHED_MAX:
            asyncio.get_running_loop().call_later(DNS_CACHE_S, self._lookups.pop, key)
        else:
            del self._lookups[key]


async def connect_to_allowed(guard: AddressGuard, infos: Sequence[AddrInfoType]) -> socket.socket:
    """Return a socket connected to one of the addresses that the guard allows.

    Raises AddressRefused when it allows none, else OSError.
    """
    return await start_connection(allowed_addresses(guard, infos), happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY_S)


def allowed_addresses(guard: AddressGuard, infos: Sequence[AddrInfoType]) -> Sequence[AddrInfoType]:
    """Those that the guard allows. Raises AddressRefused when there is none."""
    allowed = [info for info in infos if guard.allows(str(info[4][0]))]
    if not allowed:
        raise AddressRefused(f"{infos[0][4][0]} is a private address that CNS_ALLOWED_NETWORKS does not allow")
    return allowed


def connection_failure(error: Exception, dwell_ms: int) -> Failed:
    """The failure of an attempt that ended with an OSError, or with a ValueError: a name that cannot be looked up."""
    text = _ERRNO.sub(_in_words, str(error)) or type(error).__name__
    if isinstance(error, AddressRefused):
        return Failed(Cause.REFUSED_ADDRESS, text, dwell_ms, permanent=True)
    if isinstance(error, ProxyFailed):
        return Failed(Cause.EGRESS_PROXY if error.for_all else Cause.EGRESS_ROUTE, text, dwell_ms)
    if isinstance(error, socket.gaierror):
        return Failed(Cause.DNS, text, dwell_ms)
    return Failed(Cause.TLS if isinstance(error, ssl.SSLError) else Cause.CONNECTION, text, dwell_ms)


def _in_words(found: re.Match[str]) -> str:
    return f"{os.strerror(int(found[1]))}: {found[2]} port {found[3]}" if found[2] else ""


async def _look_up(host: str, port: int, flags: int) -> Sequence[AddrInfoType]:
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
