"""Requests to the service's pages and to the receiver, and waiting for what another process does."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler

POLL_INTERVAL_S = 0.01
ANSWER_S = 10.0
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_by_environment = urllib.request.build_opener()


def is_local(url: str) -> bool:
    """Whether the URL is of this machine, to which no proxy leads."""
    return urlsplit(url).hostname in LOCAL_HOSTS


def fetch(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str | None = None,
    ca_file: Path | None = None,
    timeout_s: float | None = None,
) -> tuple[int, bytes]:
    """Status and body of the response, also of an error. Raises OSError without one within `timeout_s`, by default
    `ANSWER_S`."""
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310  # of the plugin itself
    opener = _direct if is_local(url) else _by_environment
    if ca_file is not None:
        opener = urllib.request.build_opener(HTTPSHandler(context=ssl.create_default_context(cafile=ca_file)))
    try:
        with opener.open(request, timeout=ANSWER_S if timeout_s is None else timeout_s) as answer:
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


def wait_until(condition: Callable[[], object], timeout_s: float) -> bool:
    """Wait until the condition holds; False if it does not in time."""
    pause, until = Event(), time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            return False
        pause.wait(POLL_INTERVAL_S)
    return True
