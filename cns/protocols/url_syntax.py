"""The syntax of URLs that may be endpoints."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_URL = re.compile(r"[!#-;=?-\[\]-~]+")
"""Printable ASCII without blanks, quotes, angle brackets and backslash: nothing that could split a request line."""


def split_url(url: str) -> SplitResult | None:
    """The parts of a valid URL, else None."""
    if _URL.fullmatch(url) is None:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # an invalid IPv6 address or port
        return None
    return parts if parts.hostname and port != 0 else None


def server_name(url: str, usual_port: int) -> str:
    """Host and port of a URL, without the port where it is the usual one; '' for what cannot be parsed."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or usual_port
    except ValueError:  # a port that is no number, half an IPv6 address
        return ""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == usual_port else f"{shown}:{port}"
