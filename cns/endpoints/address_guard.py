"""The guard against server-side request forgery: decides to which addresses notifications may be sent.

A name is resolved, its addresses are checked, and the connection is made to a checked address (`connect.py`), so a name
that resolves differently after the check gains nothing.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""Outside of this network Python's `is_global` also accepts addresses that stand for IPv4 ones, and site-local ones."""
_PROTOCOL_ASSIGNMENTS = IPv4Network("192.0.0.0/24")
"""Python counts it as private from 3.11.10 on only. Some clouds serve instance metadata there."""
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.IGNORECASE | re.DOTALL)

LOOKUP_TIMEOUT_S = 5.0
"""The longest time that Subscribe waits for a name server."""


class AddressRefused(PermissionError):
    """The address is private and not in an allowed network."""


class AddressGuard:
    """Allows public addresses, and private ones in the networks of `allowed`. `by_name`: names are left to the egress
    proxy, which resolves and judges them."""

    def __init__(self, allowed: Iterable[str], *, by_name: bool = False) -> None:
        self.by_name = by_name
        self._allowed: tuple[IPv4Network | IPv6Network, ...] = tuple(ip_network(text) for text in allowed)

    def allows(self, address: str) -> bool:
        ip = _embedded_ipv4(ip_address(address.partition("%")[0]))
        if any(ip.version == network.version and ip in network for network in self._allowed):
            return True
        if not ip.is_global or ip.is_multicast:
            return False
        return ip in _GLOBAL_UNICAST if isinstance(ip, IPv6Address) else ip not in _PROTOCOL_ASSIGNMENTS

    async def refusal(self, url: str) -> str | None:
        """Why `url` may not be subscribed, or None. A name that does not resolve is accepted: it may resolve later."""
        host = urlsplit(url).hostname or ""
        if self.by_name and not is_address(host):
            return None
        lookup = asyncio.ensure_future(asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM))
        await asyncio.wait([lookup], timeout=LOOKUP_TIMEOUT_S)
        if not lookup.done():
            lookup.cancel()
            return None
        try:
            infos = lookup.result()
        except (OSError, UnicodeError):
            return None
        refused = [str(info[4][0]) for info in infos if not self.allows(str(info[4][0]))]
        if not infos or len(refused) < len(infos):
            return None
        return f"{host} resolves to {refused[0]}, a private address that CNS_ALLOWED_NETWORKS does not allow"


def is_address(host: str) -> bool:
    """Whether `host` is an IP address, which needs no lookup, in any form that resolvers read: 127.1, 0x7f.1. No name
    ends in a number (https://url.spec.whatwg.org/#ends-in-a-number-checker)."""
    return ":" in host or _ENDS_IN_NUMBER.fullmatch(host) is not None


def _embedded_ipv4(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address embeds, else the address: a private IPv4 address must not pass as IPv6."""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip.sixtofour is not None:
            return ip.sixtofour
        if ip in _NAT64:
            return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip
