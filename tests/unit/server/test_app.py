"""Pages whose client disconnects, and pages that fail."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
import structlog
from fastapi import Request
from structlog.testing import capture_logs

from cns_server.admin_address import AdminAddress
from cns_server.app import App, Pages
from cns_server.health import Health

SENT = MutableMapping[str, Any]


class NoCalls:
    """A front door that claims nothing."""

    def claims(self, path: str) -> bool:
        return False


async def _health() -> Health:
    return Health("green", ready=True, reasons=(), processes=())


async def _metrics() -> str:
    return ""


@pytest.fixture
def app() -> App:
    pages = Pages(
        live=lambda: True,
        leaving=lambda: False,
        health=_health,
        metrics=_metrics,
        certificate=lambda name: None,
        advance_clock=None,
    )
    made = App(NoCalls(), pages, AdminAddress(""))  # type: ignore[arg-type]  # it has what pages need of one

    @made.post("/reads")
    async def reads(request: Request) -> int:
        return len(await request.body())

    @made.get("/fails")
    async def fails() -> None:
        raise ZeroDivisionError

    structlog.reset_defaults()
    return made


async def _ask(app: App, method: str, path: str, *messages: SENT) -> list[SENT]:
    left, sent = list(messages), []

    async def receive() -> SENT:
        return left.pop(0)

    async def send(message: SENT) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [], "scheme": "http"}
    await app({**scope, "http_version": "1.1", "server": ("x", 80), "client": ("192.0.2.1", 1)}, receive, send)
    return sent


async def test_a_client_that_goes_away_is_no_error(app: App) -> None:
    with capture_logs() as logs:
        part = {"type": "http.request", "body": b"x", "more_body": True}
        await _ask(app, "POST", "/reads", part, {"type": "http.disconnect"})
    assert logs == []


async def test_failing_pages_are_answered_and_logged_once_a_second(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(app._crash_lines, "_now_s", lambda: now_s)
    with capture_logs() as logs:
        for _ in range(5):
            sent = await _ask(app, "GET", "/fails", {"type": "http.request", "body": b""})
            assert sent[0]["status"] == 500
        now_s += 1.5
        await _ask(app, "GET", "/fails", {"type": "http.request", "body": b""})
    assert [(line["event"], line["path"], line["suppressed"]) for line in logs] == [
        ("page.crashed", "/fails", 0),
        ("page.crashed", "/fails", 4),
    ]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)
