"""Checks of settings beyond patterns: URLs, addresses, networks and keys.

Each raises ValueError. Its text follows "CNS_NAME=value: " in the line with which a failed start ends.
"""

from __future__ import annotations

import base64
import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from cns_common.redis.sentinel import is_sentinel, read_sentinel_url
from cns_common.redis.urls import read_server_urls

CQL_PORT = 9042
SITES = 2
_SITE = re.compile(r"([A-Za-z0-9_.-]{1,64}):([1-9])")
MASTER_KEY_BYTES = 32
REDIS_FORM = (
    "must be redis://host:port/database, rediss:// for TLS, unix:///path, or redis+sentinel://host:port,host:port/name"
)
SITES_FORM = "must be two data centres with their replicas, such as dc1:3,dc2:3"
BIND_FORM = "must be an address to listen on: host:port"
CASSANDRA_FORM = "must be host:port,host:port with one port for all"


class ContactPoints(NamedTuple):
    """Hosts of Cassandra nodes, and their common port."""

    hosts: tuple[str, ...]
    port: int


def check_http_url(url: str, *, credentials: bool = False, query: bool = False) -> None:
    """Require an absolute URL of http or https; user and password, and a query, only where they are allowed."""
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL such as https://host or http://host:8080")
    if not all(0x21 <= ord(character) <= 0x7E for character in url):
        raise ValueError("must have no blanks and no characters outside of ASCII")
    if parts.fragment or (parts.query and not query) or ("@" in parts.netloc and not credentials):
        raise ValueError("must be scheme, host, port and path alone")


def check_redis_urls(text: str) -> None:
    """Require URLs that redis-py can read, each with or without a name."""
    for url in read_server_urls(text).values():
        check_redis_url(url)


def check_redis_url(url: str) -> None:
    """Require a URL that redis-py can read, options included."""
    if is_sentinel(url):
        read_sentinel_url(url)
        return
    parts = _split(url)
    named = bool(parts.path) if parts.scheme == "unix" else bool(parts.hostname)
    if parts.scheme not in ("redis", "rediss", "unix") or not named:
        raise ValueError(REDIS_FORM)
    try:
        from redis.connection import parse_url  # installed only with the cluster form
    except ModuleNotFoundError:
        return
    database = parts.path.removeprefix("/")
    if parts.scheme != "unix" and database and not database.isdecimal():
        raise ValueError(f"{REDIS_FORM}: {database} is no database number")
    try:
        parse_url(url)  # type: ignore[no-untyped-call]  # redis-py ships no types
    except ValueError as error:
        raise ValueError(f"{REDIS_FORM}; of its options: {str(error)[:1].lower()}{str(error)[1:]}") from None


def check_broker_url(url: str) -> None:
    """Require a URL; Celery has many transports, so nothing more is checked."""
    parts = _split(url)
    if not parts.scheme or "://" not in url:
        raise ValueError("must be a URL of a Celery broker, such as redis://host:6379/0")


def read_contact_points(text: str) -> ContactPoints:
    """Read `host:port,host:port`. The default port is 9042."""
    addresses = [address.strip() for address in text.split(",") if address.strip()]
    hosts: list[str] = []
    ports: set[int] = set()
    for address in addresses:
        try:
            parts = urlsplit(f"//{address}")
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(CASSANDRA_FORM) from None
        if not host or parts.netloc != address or "@" in address:
            raise ValueError(CASSANDRA_FORM)
        hosts.append(host)
        ports.add(CQL_PORT if port is None else port)
    if len(ports) != 1 or 0 in ports:
        raise ValueError(CASSANDRA_FORM)
    return ContactPoints(tuple(hosts), ports.pop())


def read_sites(text: str) -> dict[str, int]:
    """The replicas of each data centre; none for an empty text."""
    sites: dict[str, int] = {}
    for entry in text.split(",") if text else ():
        found = _SITE.fullmatch(entry.strip())
        if found is None or found[1] in sites:
            raise ValueError(SITES_FORM)
        sites[found[1]] = int(found[2])
    if sites and len(sites) != SITES:
        raise ValueError(SITES_FORM)
    return sites


def read_bind_address(text: str) -> tuple[str, int]:
    """Read `host:port`; an IPv6 address is in brackets."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(BIND_FORM) from None
    if not host or not port or parts.netloc != text or "@" in text or len(text.split()) > 1:
        raise ValueError(BIND_FORM)
    return host, port


def read_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Read comma-separated networks or single addresses."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple([_network(part) for part in parts])


def check_master_key(text: str) -> None:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != MASTER_KEY_BYTES:
        raise ValueError(f"must be the base64 text of {MASTER_KEY_BYTES} bytes")


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        if "host bits set" in str(error):
            raise ValueError(
                f"{text} has bits set behind its mask; {ip_network(text, strict=False)} is meant"
            ) from None
        raise ValueError(f"{text} is no network such as 10.0.0.0/8") from None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("its host or port cannot be read") from None
    return parts
