"""The answers of an API process while another site is active: its health, and 503 to every call."""

from __future__ import annotations

import asyncio
import socket

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from cns_backend.sites.membership import SiteMembership
from cns_common.aws.cors import CorsPolicy
from cns_common.configuration.settings import Settings
from cns_common.errors import RequestError
from cns_server.health import ServiceHealth
from cns_server.metrics_access import MetricsAccess
from cns_server.no_signal_server import QuietServer
from cns_server.refusals import refuse

RETRY_AFTER_S = "1"
STOP_S_MAX = 3
"""The time for calls that are being read or answered."""


class Standby:
    """Serves until `stop`, which the process calls when it can take calls itself."""

    def __init__(self, settings: Settings, site: SiteMembership, sockets: list[socket.socket]) -> None:
        self._site = site
        self._cors = CorsPolicy.of(settings.cors_origins)
        self._shows_names = MetricsAccess(settings).admits
        self._sockets = sockets
        self._server = QuietServer(settings, self._answer, interface="asgi3", timeout_graceful_shutdown=STOP_S_MAX)
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._serving = asyncio.create_task(self._server.serve(sockets=self._sockets))

    async def stop(self) -> None:
        """May be called twice."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        for each in self._sockets:
            each.close()

    def health(self) -> ServiceHealth:
        """Red when a person must decide which site is used."""
        status = self._site.status()
        undecided = not status.active or (status.active == status.site and not status.acting)
        reachable = status.other_reachable or undecided
        return ServiceHealth(
            "red" if undecided else "green" if reachable else "yellow",
            ready=False,
            reasons=(
                f"stands by: {self._site.why_standing_by}",
                *([] if status.other_reachable else [f"site {status.other} does not answer"]),
            ),
            site=status,
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._response(Request(scope, receive))
        await response(scope, receive, send)

    def _response(self, request: Request) -> Response:
        names = self._shows_names(request.scope)
        match request.url.path:
            case "/live":
                return PlainTextResponse("")
            case "/health":
                health = self.health()
                return JSONResponse(health.to_dict(names=names), 503 if health.status == "red" else 200)
            case "/ready":
                return JSONResponse(self.health().to_dict(names=names), 503)
            case _:
                return self._refusal(request)

    def _refusal(self, request: Request) -> Response:
        """In the protocol of the call, so that SDKs repeat it."""
        why = RequestError("ServiceUnavailable", "This site stands by.")
        return refuse(why, request, {"retry-after": RETRY_AFTER_S}, self._cors)
