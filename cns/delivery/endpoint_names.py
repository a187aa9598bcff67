"""Endpoints in reports of workers, without credentials."""

from __future__ import annotations

import re

SHOWN_CHARS_MAX = 500
_CREDENTIALS = re.compile(r"//[^/@]*@")


def without_credentials(text: str) -> str:
    """Hide the user and password of an endpoint's URL."""
    return _CREDENTIALS.sub("//****@", text)


def shown_endpoint(endpoint: str) -> str:
    """The endpoint of a circuit breaker, as workers report it."""
    return without_credentials(endpoint)[:SHOWN_CHARS_MAX]
