"""The OpenAPI document is made once, beside the event loop, however many ask for it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest

from cns_server.rest.app import RestApp


async def test_the_document_is_made_once_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    one: Any = MagicMock()
    app = RestApp(one, one, one, one, one, Path(), receipt_key=b"k" * 32, version="1")
    made_in: list[int] = []

    def document() -> dict[str, object]:
        made_in.append(threading.get_ident())
        return {"openapi": "3.1.0"}

    monkeypatch.setattr(app, "openapi", document)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        answers = await asyncio.gather(*[http.get("/openapi.json") for _ in range(8)])
        answers.append(await http.get("/openapi.json"))
        assert (await http.post("/openapi.json")).status_code == 405
    assert {(one.status_code, one.text) for one in answers} == {(200, '{"openapi":"3.1.0"}')}
    assert len(made_in) == 1 and made_in[0] != threading.get_ident()
