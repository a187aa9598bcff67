"""An app that its first request makes: once, in a thread, and not before."""

from __future__ import annotations

import asyncio
import threading

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cns_server.lazy_app import LazyApp
from lab.harness.waiting import PATIENCE_S


async def test_requests_that_come_together_make_it_once_beside_the_loop() -> None:
    made_in: list[int] = []
    served: list[str] = []
    go_on = threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        served.append(scope["path"])

    def make() -> ASGIApp:
        made_in.append(threading.get_ident())
        go_on.wait(PATIENCE_S)
        return app

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None: ...

    lazy = LazyApp(make)
    assert made_in == []
    requests = [asyncio.create_task(lazy({"path": path}, receive, send)) for path in ("/a", "/b")]
    while not made_in:
        await asyncio.sleep(0)  # the loop is free meanwhile
    go_on.set()
    await asyncio.gather(*requests)
    assert sorted(served) == ["/a", "/b"]
    assert len(made_in) == 1 and made_in[0] != threading.get_ident()
