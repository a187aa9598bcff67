"""The egress proxy's URL: http://user:password@host:3128."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_FORM = "must be http://[user:password@]host:port"


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressProxy:
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)


def read_proxy_url(url: str) -> EgressProxy:
    """Read the URL. Raises ValueError with a text that quotes nothing of the URL, which may contain a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its own text quotes the URL
        raise ValueError(_FORM) from None
    if parts.scheme != "http" or not parts.hostname or not port or parts.path not in ("", "/"):
        raise ValueError(_FORM)
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(_FORM)
    user = unquote(parts.username or "")
    if ":" in user:
        raise ValueError("the user's name has a colon, which a proxy takes for the beginning of the password")
    return EgressProxy(host=parts.hostname, port=port, user=user, password=unquote(parts.password or ""))
