"""Sign-out while the store does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cns_server.pages.rendering import Templates
from cns_server.pages.sessions import COOKIE, FORM_FIELD, FORM_PURPOSE, REGION_COOKIE, Sessions, form_token
from cns_server.pages.sign_in import SignInPages


@pytest.mark.parametrize("away", ["has_ended", "end_session"])
async def test_the_browser_forgets_its_cookies(away: str) -> None:
    async def fail(*_: object) -> bool:
        raise StoreUnavailable("away")

    async def no(*_: object) -> bool:
        return False

    principal = SimpleNamespace(session_id="s", expires_s=1)
    authenticator: Any = SimpleNamespace(bearer=lambda token, region, session: principal)
    accounts: Any = SimpleNamespace(**{"has_ended": no, "end_session": no, away: fail})
    unread: Any = None
    pages, app = FastAPI(), FastAPI()
    sessions = Sessions(authenticator, accounts, Clock())
    SignInPages(sessions, unread, Templates("1"), unread).add_to(pages)
    app.mount("/ui", pages)
    cookies = {COOKIE: "token", REGION_COOKIE: "us-east-1"}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", cookies=cookies) as browser:
        answer = await browser.post("/ui/sign-out", data={FORM_FIELD: form_token("token", FORM_PURPOSE)})
    assert (answer.status_code, "could not end the session" in answer.text) == (503, True)
    deleted = answer.headers.get_list("set-cookie")
    assert [each.split("=")[0] for each in deleted if "Max-Age=0" in each] == [COOKIE, REGION_COOKIE]
