"""`--compat localstack`: the pages with which LocalStack's users wait for it, inspect it and set it up."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text
from cns_server.health import ServiceHealth
from cns_server.localstack.body import read_body
from cns_server.localstack.health import EDITION, PUT_BYTES_MAX, SERVICES, VERSION, HealthBoard, read_action
from cns_server.localstack.sns_pages import NotificationPages
from cns_server.localstack.sqs_pages import LocalstackMessages

_STAGES = ("BOOT", "START", "READY", "SHUTDOWN")
_PROVIDERS = "localstack.aws.provider"
_DOCKER_MARK = Path("/.dockerenv")

log = structlog.get_logger(__name__)


def localstack_pages(
    health: Callable[[], Awaitable[ServiceHealth]],
    messages: LocalstackMessages,
    notifications: NotificationPages,
    clock: Clock,
) -> list[Route]:
    return [*_health(health), *_information(clock), *messages.routes(), *notifications.routes()]


async def answer_refusal(_request: Request, error: Exception) -> Response:
    """A name that no store takes, or a store that is away."""
    if isinstance(error, RequestError):
        return JSONResponse({"error": error.message}, 400)
    return JSONResponse({"error": "The store is not available."}, 503)


def _health(health: Callable[[], Awaitable[ServiceHealth]]) -> list[Route]:
    board, path = HealthBoard(), "/_localstack/health"

    async def show(request: Request) -> Response:
        return PlainTextResponse("ok") if request.method == "HEAD" else JSONResponse(board.to_page(await health()))

    async def put(request: Request) -> Response:
        if not board.put(await read_body(request, PUT_BYTES_MAX)):
            return PlainTextResponse("invalid request", 400)
        return JSONResponse({"status": "OK"})

    async def act(request: Request) -> Response:
        """`restart` and `kill` are ignored: data survives a restart here, and the operator stops the service."""
        action = read_action(await read_body(request, PUT_BYTES_MAX))
        if action is None:
            return PlainTextResponse("invalid request", 400)
        log.warning("localstack.action_ignored", action=action)
        return PlainTextResponse("ok")

    return [Route(path, show), Route(path, put, methods=["PUT"]), Route(path, act, methods=["POST"])]


def _information(clock: Clock) -> list[Route]:
    started_ms = clock.now_ms()
    session = uuid_text()
    in_docker = _DOCKER_MARK.exists()

    async def info(_request: Request) -> Response:
        now_ms = clock.now_ms()
        page = {
            "version": VERSION,
            "edition": EDITION,
            "is_license_activated": False,
            "session_id": session,
            "machine_id": session[:8],
            "system": platform.system().lower(),
            "is_docker": in_docker,
            "server_time_utc": datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            "uptime": (now_ms - started_ms) // 1000,
        }
        return JSONResponse(page)

    async def init(_request: Request) -> Response:
        """There are no init scripts, so every stage but SHUTDOWN is completed at once."""
        return JSONResponse({"completed": {stage: _is_completed(stage) for stage in _STAGES}, "scripts": []})

    async def init_stage(request: Request) -> Response:
        stage = request.path_params["stage"]
        if stage.upper() not in _STAGES:
            raise HTTPException(404, f"no such stage {stage}")
        return JSONResponse({"completed": _is_completed(stage.upper()), "scripts": []})

    async def plugins(_request: Request) -> Response:
        loaded = [{"name": name, "is_initialized": True, "is_loaded": True} for name in SERVICES]
        return JSONResponse({_PROVIDERS: loaded})

    return [
        Route("/_localstack/info", info),
        Route("/_localstack/init", init),
        Route("/_localstack/init/{stage}", init_stage),
        Route("/_localstack/plugins", plugins),
    ]


def _is_completed(stage: str) -> bool:
    return stage != "SHUTDOWN"
