"""The mail relay's URL: smtp://user:password@host:587?starttls=require."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

StartTls = Literal["require", "auto", "off"]
"""auto: if the relay offers it; the certificate is checked then, too."""

SUBMISSION_PORT = 587
TLS_PORT = 465


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpRelay:
    """`tls`: TLS from the first byte. A password is sent without TLS only if `start_tls` is off."""

    host: str
    port: int
    tls: bool = False
    start_tls: StartTls = "require"
    user: str = ""
    password: str = field(default="", repr=False)


def read_smtp_url(url: str) -> SmtpRelay:
    """Read the URL. Raises ValueError with a text that quotes nothing of the URL, which may contain a password."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its own text quotes the URL
        raise ValueError("this is no URL") from None
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise ValueError("must be smtp://[user:password@]host[:port][?starttls=require|auto|off], or smtps://")
    try:
        port = parts.port
    except ValueError:
        raise ValueError("its port is not a port number") from None
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
