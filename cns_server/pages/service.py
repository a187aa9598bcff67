"""The page about the service itself: health, workers and their pools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response

from cns_backend.stores.contract import ServiceState
from cns_server.health import Health
from cns_server.pages.context import PageContext


class ServicePages:
    def __init__(
        self,
        context: PageContext,
        health: Callable[[], Awaitable[Health]],
        state: Callable[[], Awaitable[ServiceState]],
    ) -> None:
        self._context = context
        self._health = health
        self._state = state

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/service", self.show, methods=["GET"])

    async def show(self, request: Request) -> Response:
        session = self._context.session(request)
        state = await self._state()
        pools = [(report.process, pool) for report in state.reports for pool in report.pools]
        return self._context.page(request, "service.html", session, health=await self._health(), pools=pools)
