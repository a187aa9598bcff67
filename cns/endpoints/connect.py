"""From a name to a socket: what it resolves to, remembered for a while, and an address of those that is allowed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from aiohappyeyeballs import AddrInfoType, start_connection

from cns.endpoints.address_guard import AddressGuard, AddressRefused

DNS_CACHE_S = 10.0
NAMES_CACHED_MAX = 1_000
HAPPY_EYEBALLS_DELAY_S = 0.25
"""Until the next address of a name is tried beside one that does not answer (RFC 8305)."""


class NameResolver:
    """Of names, on one event loop; who asks for the same name waits for the same answer."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, int], asyncio.Task[Sequence[AddrInfoType]]] = {}

    async def find(self, host: str, port: int) -> Sequence[AddrInfoType]:
        """Raises socket.gaierror, or UnicodeError for what cannot be a name."""
        if _is_address(host):
            return await _look_up(host, port, 0)
        key = (host, port)
        answer = self._answers.get(key)
        if answer is None:
            answer = asyncio.ensure_future(_look_up(host, port, socket.AI_ADDRCONFIG))
            self._answers[key] = answer
            answer.add_done_callback(lambda done: self._remember(key, done))
        return await asyncio.shield(answer)

    def _remember(self, key: tuple[str, int], answer: asyncio.Task[Sequence[AddrInfoType]]) -> None:
        found = not answer.cancelled() and answer.exception() is None
        if found and len(self._answers) <= NAMES_CACHED_MAX:
            asyncio.get_running_loop().call_later(DNS_CACHE_S, self._answers.pop, key)
        else:
            del self._answers[key]


async def connect_to_allowed(guard: AddressGuard, infos: Sequence[AddrInfoType]) -> socket.socket:
    """Connected to one of the addresses: no private one, unless it is allowed, whatever the name's owner says of it."""
    allowed = [info for info in infos if guard.allows(str(info[4][0]))]
    if not allowed:
        raise AddressRefused(f"{infos[0][4][0]} is a private address")
    return await start_connection(allowed, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY_S)


async def _look_up(host: str, port: int, flags: int) -> Sequence[AddrInfoType]:
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


def _is_address(host: str) -> bool:
    """Rather than a name: no need to look it up."""
    return ":" in host or host.replace(".", "").isdecimal()
