"""Redis Sentinel: asks which server is the primary, for URLs `redis+sentinel://host:port,host:port/name`.

A user and a password in the URL are the servers'; Sentinels are asked without. `?db=1` is the database.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEME = "redis+sentinel"
SENTINEL_PORT = 26379
FORM = "must be redis+sentinel://host:port,host:port/name, with the name that the Sentinels have for the server"
ASK_S = 1.0
"""The longest time that one Sentinel may take to answer."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")
_ANSWER_BYTES = 4_096


class SentinelAddress(NamedTuple):
    sentinels: tuple[tuple[str, int], ...]
    name: str
    user: str
    password: str
    database: int


def is_sentinel(url: str) -> bool:
    return url.startswith(f"{SCHEME}://")


def read_sentinel_url(url: str) -> SentinelAddress:
    """Raises ValueError."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    name = parts.path.removeprefix("/")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    database = options.pop("db", "0")
    if not name or "/" in name or options or not database.isdecimal():
        raise ValueError(FORM)
    sentinels = tuple([_read_host(host) for host in hosts.split(",")])
    return SentinelAddress(sentinels, name, unquote(user), unquote(password), int(database))


def _read_host(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found[2] or SENTINEL_PORT) < 2**16:
        raise ValueError(FORM)
    return found[1].strip("[]"), int(found[2] or SENTINEL_PORT)


def celery_urls(url: str) -> str:
    """The address in the form of Celery's broker setting."""
    address = read_sentinel_url(url)
    credentials = urlsplit(url).netloc.rpartition("@")[0]
    before = f"{credentials}@" if credentials else ""
    return ";".join([f"sentinel://{before}{host}:{port}/{address.database}" for host, port in address.sentinels])


async def find_primary(address: SentinelAddress) -> tuple[str, int]:
    """The primary, by the first Sentinel that knows it. Raises OSError if none does."""
    failures: list[str] = []
    for host, port in address.sentinels:
        try:
            async with asyncio.timeout(ASK_S):
                found = await _ask(host, port, address.name)
        except (OSError, TimeoutError) as error:
            failures.append(f"{host}:{port}: {str(error) or 'no answer'}")
            continue
        if found is not None:
            return found
        failures.append(f"{host}:{port} does not know {address.name}")
    raise OSError(f"no Sentinel names the primary ({'; '.join(failures)})")


async def _ask(host: str, port: int, name: str) -> tuple[str, int] | None:
    import hiredis  # installed only with the cluster form

    reader, writer = await asyncio.open_connection(host, port)
    try:
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        writer.write(hiredis.pack_command(question))  # type: ignore[arg-type]  # its stub knows one word
        replies = hiredis.Reader(encoding="utf-8")
        while (answer := replies.gets()) is False:
            data = await reader.read(_ANSWER_BYTES)
            if not data:
                raise ConnectionResetError("the Sentinel closed the connection")
            replies.feed(data)
    finally:
        writer.close()
    if isinstance(answer, Exception):
        raise OSError(str(answer))
    return _address(answer)


def _address(answer: object) -> tuple[str, int] | None:
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        return None
    host, port = answer
    return str(host), int(port)
