"""Where mails are handed over, as one URL says it: smtp://user:password@host:587?starttls=require."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

StartTls = Literal["require", "auto", "off"]
"""auto: where the relay offers it, and then no less checked."""

SUBMISSION_PORT = 587
TLS_PORT = 465


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpRelay:
    """`tls`: from the first byte on. A password goes over a connection without TLS only where `start_tls` is off."""

    host: str
    port: int
    tls: bool = False
    start_tls: StartTls = "require"
    user: str = ""
    password: str = field(default="", repr=False)


def read_smtp_url(url: str) -> SmtpRelay:
    """Raises ValueError, whose text shows nothing of the URL: it may have a password."""
    try:
        parts = urlsplit(url)
    except ValueError:  # whose text shows what is wrong
        raise ValueError("this is no URL") from None
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise ValueError("must be smtp://[user:password@]host[:port][?starttls=require|auto|off], or smtps://")
    try:
        port = parts.port
    except ValueError:
        raise ValueError("its port is no port") from None
    tls = parts.scheme == "smtps"
    return SmtpRelay(
        host=parts.hostname,
        port=port or (TLS_PORT if tls else SUBMISSION_PORT),
        tls=tls,
        start_tls=_start_tls(parts.query, tls=tls),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _start_tls(query: str, *, tls: bool) -> StartTls:
    options = dict(parse_qsl(query, keep_blank_values=True))
    wanted = options.pop("starttls", "require")
    if options or wanted not in get_args(StartTls) or (tls and query):
        raise ValueError("after the ? may stand starttls=require, auto or off, and only with smtp://")
    return wanted  # type: ignore[return-value]  # one of the three
