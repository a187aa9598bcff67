"""The API app: AWS calls go straight to the front door, all other requests to routes and mounted apps."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from cns_backend.metrics_token import CHALLENGE
from cns_common.aws.front_door import FrontDoor
from cns_common.log_throttle import LogThrottle
from cns_server.admin_address import AdminAddress
from cns_server.health import ServiceHealth
from cns_server.refusals import NO_CERTIFICATE, REFUSALS, no_such_page, refuse

ADVANCE_S_MAX = 10 * 365 * 86_400
CERTIFICATE_PREFIX = "SimpleNotificationService-"
STOPPING = "this process was told to stop"
METRICS_REFUSED = "metrics are shown with the bearer token CNS_METRICS_TOKEN, and at the address CNS_ADMIN_BIND\n"
PATH_CHARS_MAX = 100
"""The length of a page's path in the log."""

log = structlog.get_logger(__name__)


class ClockAdvance(msgspec.Struct, frozen=True):
    """The request that moves the test clock."""

    advance_s: Annotated[float, msgspec.Meta(ge=0, le=ADVANCE_S_MAX)]


_ADVANCE = msgspec.json.Decoder(ClockAdvance, strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The functions that the routes call."""

    live: Callable[[], bool]
    leaving: Callable[[], bool]
    health: Callable[[], Awaitable[ServiceHealth]]
    metrics: Callable[[], Awaitable[str]]
    shows_names: Callable[[Scope], bool]
    certificate: Callable[[str], bytes | None]
    advance_clock: Callable[[int], Awaitable[int]] | None  # None without a test clock
    reset: Callable[[], Awaitable[int]] | None  # None without a test clock


class App(Starlette):
    """An app whose AWS calls skip middleware and router: a handler of FastAPI costs four times a bare one. The apps of
    FastAPI are made by their first request, since importing it takes a third of a start."""

    def __init__(
        self, front: FrontDoor, pages: Pages, admin: AdminAddress, pages_of_admin: tuple[str, ...] = ()
    ) -> None:
        """`pages_of_admin`: the beginnings of paths that only the address for administration has."""
        super().__init__(routes=_routes(pages))
        self._front = front
        self._admin = admin
        self._pages_of_admin = pages_of_admin
        self._crash_lines = LogThrottle(time.monotonic)
        for status in (404, 405):
            self.add_exception_handler(status, partial(no_such_page, front.cors))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._front.claims(scope["path"]):
            await self._front(scope, receive, send)
        elif scope["path"].startswith(self._pages_of_admin) and not self._admin.admits(scope):
            await refuse(REFUSALS[404], Request(scope))(scope, receive, send)
        else:
            await self._show(scope, receive, send)

    async def _show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a page. A client that disconnects is no error. Starlette has answered other exceptions with 500."""
        try:
            await super().__call__(scope, receive, send)
        except ClientDisconnect:
            pass
        except Exception as error:  # the last resort of every page: logged, at most once a second
            suppressed = self._crash_lines.admit()
            if suppressed is not None:
                path = scope.get("path", "")[:PATH_CHARS_MAX]
                log.error("page.crashed", path=path, suppressed=suppressed, exc_info=error)

    def add_routes(self, routes: Sequence[BaseRoute]) -> None:
        self.router.routes.extend(routes)

    def add_redirections(self, targets: Mapping[str, str]) -> None:
        """Redirect each path to another one."""
        self.add_routes([Route(path, partial(_redirect, target)) for path, target in targets.items()])


def _routes(pages: Pages) -> list[Route]:
    async def live(_request: Request) -> Response:
        """Whether this process takes calls. It depends on neither the store nor the workers. 404 while it will
        stop: HAProxy then sends it no more calls, and lets those in progress end."""
        if pages.leaving():
            return PlainTextResponse("", status_code=404)
        return PlainTextResponse("", status_code=200 if pages.live() else 503)

    async def certificate(request: Request) -> Response:
        pem = pages.certificate(CERTIFICATE_PREFIX + request.path_params["name"])
        if pem is None:
            raise HTTPException(404, NO_CERTIFICATE)
        return Response(pem, media_type="application/x-pem-file")

    found = [
        Route("/live", live),
        *_reports(pages),
        Route(f"/{CERTIFICATE_PREFIX}{{name}}", certificate),
    ]
    if pages.advance_clock is not None:
        found.append(_test_page("clock", _clock(pages.advance_clock)))
    if pages.reset is not None:
        found.append(_test_page("reset", _reset(pages.reset)))
    return found


def _test_page(name: str, act: Callable[[Request], Awaitable[Response]]) -> Route:
    async def run(request: Request) -> Response:
        """Refuse pages of other origins: a browser sends their POST without asking, and the service asks for no key."""
        origin = request.headers.get("origin")
        if origin is not None and origin.rpartition("//")[2] != request.headers.get("host", ""):
            return PlainTextResponse("a page of another origin may not do this\n", 403)
        return await act(request)

    return Route(f"/_cns/{name}", run, methods=["POST"])


def _reports(pages: Pages) -> list[Route]:
    async def health(request: Request) -> Response:
        """503 when a person must act."""
        report = await pages.health()
        shown = report.to_dict(names=pages.shows_names(request.scope))
        return JSONResponse(shown, status_code=503 if report.status == "red" else 200)

    async def ready(request: Request) -> Response:
        """200 when calls will be answered and deliveries made; 503 from when this process was told to stop."""
        if pages.leaving():
            return JSONResponse({"ready": False, "reasons": [STOPPING]}, status_code=503)
        report = await pages.health()
        shown = report.to_dict(names=pages.shows_names(request.scope))
        return JSONResponse(shown, status_code=200 if report.ready else 503)

    async def metrics(request: Request) -> Response:
        """401 without the token: a page without names would silence alerts of a scrape that lost its token."""
        if not pages.shows_names(request.scope):
            return PlainTextResponse(METRICS_REFUSED, 401, {"www-authenticate": CHALLENGE})
        return PlainTextResponse(await pages.metrics(), media_type="text/plain; version=0.0.4")

    return [Route("/health", health), Route("/ready", ready), Route("/metrics", metrics)]


def _clock(advance: Callable[[int], Awaitable[int]]) -> Callable[[Request], Awaitable[Response]]:
    async def clock(request: Request) -> Response:
        """Move the test clock; answers when every process has followed. The body is read as JSON whatever its
        Content-Type is: curl sends a form's."""
        try:
            asked = _ADVANCE.decode(await request.body())
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return PlainTextResponse(f'the body must be like {{"advance_s": 60}}: {error}', 422)
        return JSONResponse({"offset_ms": await advance(int(asked.advance_s * 1000))})

    return clock


def _reset(run: Callable[[], Awaitable[int]]) -> Callable[[Request], Awaitable[Response]]:
    async def reset(_request: Request) -> Response:
        return JSONResponse({"offset_ms": await run()})

    return reset


async def _redirect(target: str, _request: Request) -> Response:
    return RedirectResponse(target, 303)
