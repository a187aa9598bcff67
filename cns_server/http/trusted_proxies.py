"""The client of a request that a trusted proxy passes on, by the header that the proxy writes.

Each proxy appends the address that called it, so a chain is read from its right end: the first address that is no
trusted proxy's is the client's. Whatever stands left of it, the client may have written itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from itertools import islice
from typing import Literal, NamedTuple, Self

from cns_common.configuration.settings import Settings
from cns_common.peer_address import peer_address

HOPS_MAX = 32
"""A chain in which so many trusted proxies follow each other names nobody."""
ENTRY_BYTES_MAX = 128

_ADDRESS = re.compile(
    r"(?:\[([0-9a-f:.]+)\]|([0-9.]+))(?::(?:[0-9]{1,5}|_[a-z0-9._-]+))?|([0-9a-f:.]+)", re.ASCII | re.IGNORECASE
)
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_REVERSED_PAIR = re.compile(rb'[ \t]*(?:"((?:[^"]|"(?=\\))*)"|(%s*))=(%s+)[ \t]*(;|,|\Z)' % (_TOKEN, _TOKEN))
"""A parameter of `Forwarded` (RFC 7239), in reverse: a quote that an odd text leaves open on the left must not change
how the right is read."""

ForwardedHeader = Literal["x-forwarded-for", "forwarded"]
Scheme = Literal["http", "https"]
Headers = Sequence[tuple[bytes, bytes]]
"""Names are in lower case."""


class Peer(NamedTuple):
    """The other end of a connection."""

    client: tuple[str, int]
    scheme: Scheme


class Hop(NamedTuple):
    """Who called a proxy. `scheme` is empty where the header does not say it."""

    address: bytes
    scheme: bytes = b""


class TrustedProxies:
    """The proxies that are believed, and the header that they write. Each other header of that kind is ignored."""

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """None if no proxy is trusted."""
        return cls(settings.trusted_proxies, settings.forwarded_header) if settings.trusted_proxies else None

    def __init__(self, networks: tuple[IPv4Network | IPv6Network, ...], header: ForwardedHeader) -> None:
        self._networks = networks
        self._header = header.encode()
        self._hops: Callable[[list[bytes]], Iterator[Hop | None]] = (
            _forwarded_for if header == "x-forwarded-for" else _forwarded
        )
        self.include = lru_cache(maxsize=1_024)(self._include)

    def _include(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def origin(self, peer: Peer, headers: Headers) -> Peer:
        """The client of a request that a trusted peer passes on, and the scheme that it used.

        The client is the peer itself without the header, and where an entry that the walk reaches is empty, malformed,
        hidden (`unknown`, `_name`) or too long.
        """
        found = self._client([value for name, value in headers if name == self._header])
        if self._header == b"forwarded":
            schemes = [found[1].scheme] if found is not None and found[1].scheme else []
        else:
            lines = [value for name, value in headers if name == b"x-forwarded-proto"]
            schemes = [each.strip(b" \t") for value in lines for each in value.split(b",")]
        secure = all(each.lower() == b"https" for each in schemes)
        client = peer.client if found is None else (found[0], 0)
        return Peer(client, peer.scheme if not schemes else "https" if secure else "http")

    def _client(self, lines: list[bytes]) -> tuple[str, Hop] | None:
        client = None
        for count, hop in enumerate(islice(self._hops(lines), HOPS_MAX + 1)):
            address = None if hop is None else read_address(hop.address)
            if hop is None or address is None or count == HOPS_MAX:
                return None
            client = address, hop
            if not self.include(address):
                break
        return client


def read_address(entry: bytes) -> str | None:
    """The address of an entry `a.b.c.d`, `a.b.c.d:port`, `v6`, `[v6]` or `[v6]:port`; None for anything else."""
    found = _ADDRESS.fullmatch(entry.decode("latin-1")) if len(entry) <= ENTRY_BYTES_MAX else None
    if found is None:
        return None
    bracketed, dotted, bare = found.groups()
    try:
        address = ip_address(bracketed or dotted or bare)
    except ValueError:
        return None
    return None if bracketed and address.version == 4 else peer_address(str(address))


def _forwarded_for(lines: list[bytes]) -> Iterator[Hop]:
    """The entries of X-Forwarded-For, from the right."""
    for line in reversed(lines):
        rest, comma = line, b","
        while comma:
            rest, comma, entry = rest.rpartition(b",")
            yield Hop(entry.strip(b" \t"))


def _forwarded(lines: list[bytes]) -> Iterator[Hop | None]:
    """The elements of Forwarded, from the right; None, and then no more, for one that is malformed or names no client
    or several."""
    for line in reversed(lines):
        reverse, at, end = line[::-1], 0, b","
        while end:
            pairs: dict[bytes, bytes] = {}
            end = b";"
            while end == b";":
                found = _REVERSED_PAIR.match(reverse, at)
                name = b"" if found is None else found[3][::-1].lower()
                if found is None or name in pairs:
                    yield None
                    return
                pairs[name] = (found[1] or found[2] or b"")[::-1]
                at, end = found.end(), found[4]
            yield Hop(pairs.get(b"for", b""), pairs.get(b"proto", b""))
