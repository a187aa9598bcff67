"""Parses the URL of a POST. Path and query stay as they are written."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from cns.endpoints.http_auth import EndpointCredentials

_PORTS = {"http": 80, "https": 443}
_PORT_MAX = 65_535
_URL = re.compile(
    r"""(https?)://
    (?:([^\s/?\#]*)@)?                          # credentials
    (\[[0-9a-f:.]+\]|[^\s\x00-\x1f\[\]@:/?\#]+)  # host
    (?::([0-9]{0,5}))?
    ([/?][^\s\x00-\x1f\x7f\#]*)?
    (?:\#.*)?""",
    re.VERBOSE | re.IGNORECASE,
)


class HttpOrigin(NamedTuple):
    """The server end of a connection."""

    tls: bool
    host: str
    port: int


class HttpTarget(NamedTuple):
    """`path` includes the query; `host_field` is the value of the Host header."""

    origin: HttpOrigin
    host_field: str
    path: str
    credentials: EndpointCredentials | None


def target_of(url: str) -> HttpTarget | None:
    """Return None for a URL that cannot be posted to."""
    match = _URL.fullmatch(url)
    if match is None:
        return None
    scheme, userinfo, host, port_text, path = match.groups()
    scheme = scheme.lower()
    port = int(port_text) if port_text else _PORTS[scheme]
    host = _ascii(host.lower())
    if host is None or not 0 < port <= _PORT_MAX:
        return None
    return HttpTarget(
        HttpOrigin(scheme == "https", host.strip("[]"), port),
        host if port == _PORTS[scheme] else f"{host}:{port}",
        "/" if not path else path if path[0] == "/" else f"/{path}",
        None if userinfo is None else _credentials(userinfo),
    )


def _ascii(host: str) -> str | None:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return None


def _credentials(userinfo: str) -> EndpointCredentials:
    name, _, password = userinfo.partition(":")
    return EndpointCredentials(unquote(name), unquote(password))
