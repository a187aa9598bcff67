"""Reads `CNS_REDIS`: one URL, or several with names."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

FIRST_SERVER = "redis"
"""The name of a server whose setting gives it none: of the only one, or the first."""

_NAME = "[a-z0-9][a-z0-9-]{0,31}"
_NAMED = re.compile(rf"({_NAME})=(.+)\Z", re.DOTALL)


def read_server_urls(text: str) -> dict[str, str]:
    """The URLs by name. A URL without a name is called by its place: `redis`, `redis-2`, `redis-3`."""
    urls: dict[str, str] = {}
    for number, entry in enumerate(text.split(), start=1):
        named = _NAMED.match(entry)
        name = named[1] if named else FIRST_SERVER if number == 1 else f"{FIRST_SERVER}-{number}"
        if name in urls:
            raise ValueError(f"two servers have the name {name}")
        urls[name] = named[2] if named else entry
    return urls


def check_server_name(name: str) -> None:
    if not re.fullmatch(_NAME, name):
        raise ValueError("a name has up to 32 small letters, digits and hyphens")


def first_url(text: str) -> str:
    """The URL of the first server, which also announces changes and counts rates; '' for none."""
    return next(iter(read_server_urls(text).values()), "")


def address_of(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def url_at(address: str, like: str) -> str:
    """The URL at an address, with the user, the password and the options of another URL."""
    parts, known = urlsplit(address), urlsplit(like)
    user, at, _ = known.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}{parts.netloc}", query=parts.query or known.query))
