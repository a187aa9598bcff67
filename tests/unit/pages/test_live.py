"""Live figures while the store does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cns_common.errors import StoreUnavailable
from cns_server.pages import live
from cns_server.pages.context import PageContext
from cns_server.pages.live import live_response
from cns_server.pages.sessions import COOKIE, Sessions


@pytest.mark.parametrize("away", ["session", "figures"])
async def test_a_store_that_is_away_ends_the_stream(monkeypatch: pytest.MonkeyPatch, away: str) -> None:
    monkeypatch.setattr(live, "LIVE_INTERVAL_S", 0.001)
    principal = SimpleNamespace(session_id="s")
    reads = 0

    async def has_ended(session_id: str) -> bool:
        if away == "session":
            raise StoreUnavailable("away")
        return False

    async def read() -> str:
        nonlocal reads
        reads += 1
        raise StoreUnavailable("away")

    async def connected() -> bool:
        return False

    authenticator: Any = SimpleNamespace(bearer=lambda token, region, session: principal)
    accounts: Any = SimpleNamespace(has_ended=has_ended)
    unread: Any = SimpleNamespace(leaving=False)
    context = PageContext(unread, Sessions(authenticator, accounts, unread), unread, unread)
    request: Any = SimpleNamespace(cookies={COOKIE: "token"}, is_disconnected=connected)
    session: Any = SimpleNamespace(principal=principal, account="1")
    stream = live_response(request, context, session, "1", read).body_iterator
    assert [part async for part in stream] == ["data: 1\n\n"]
    assert reads == (away == "figures")
