"""Requests to the service's pages and to the receiver, and waiting for what another process does."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from threading import Event

POLL_INTERVAL_S = 0.01
ANSWER_S = 10.0
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""It uses no proxy: the service is on this machine, or in a container on it."""


def fetch(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str | None = None,
    timeout_s: float = ANSWER_S,
) -> tuple[int, bytes]:
    """Status and body of the response, also of an error. Raises OSError without one."""
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310  # of the plugin itself
    try:
        with _opener.open(request, timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def is_up(url: str) -> bool:
    """Whether the page answers with 200."""
    try:
        return fetch(url)[0] == 200
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until the condition holds; False if it does not in time."""
    pause, until = Event(), time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            return False
        pause.wait(POLL_INTERVAL_S)
    return True
