"""An app that is made by its first request: most API processes never get a request for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

AppType = TypeVar("AppType", bound=ASGIApp)


class LazyApp(Generic[AppType]):
    """Importing the app and making its routes takes a fifth of a second, which a start does not wait for. They are done
    in a thread, so that the event loop goes on answering."""

    def __init__(self, make: Callable[[], AppType]) -> None:
        self._make = make
        self._made: AppType | None = None
        self._making: asyncio.Future[AppType] | None = None
        self._lock = threading.Lock()

    def make(self) -> AppType:
        """The app, made now in this thread if it is the first call."""
        with self._lock:
            made = self._made
            if made is None:
                made = self._made = self._make()
            return made

    async def get(self) -> AppType:
        """The app. Requests that come meanwhile wait for the one thread that makes it."""
        if self._made is not None:
            return self._made
        if self._making is None or self._making.done():
            self._making = asyncio.ensure_future(asyncio.to_thread(self.make))
        return await asyncio.shield(self._making)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = await self.get()
        await app(scope, receive, send)
