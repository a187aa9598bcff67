"""`--compat localstack`: the pages with which LocalStack's users wait for it, inspect it and set it up."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text
from cns_server.health import Health
from cns_server.localstack.body import read_body
from cns_server.localstack.health import EDITION, PUT_BYTES_MAX, SERVICES, VERSION, HealthBoard, read_action
from cns_server.localstack.sns_pages import NotificationPages
from cns_server.localstack.sqs_pages import MessagePages

_STAGES = ("BOOT", "START", "READY", "SHUTDOWN")
_PROVIDERS = "localstack.aws.provider"
_DOCKER_MARK = Path("/.dockerenv")

log = structlog.get_logger(__name__)


def localstack_pages(
    health: Callable[[], Awaitable[Health]], messages: MessagePages, notifications: NotificationPages, clock: Clock
) -> APIRouter:
    router = APIRouter()
    _add_health(router, health)
    _add_information(router, clock)
    messages.add_to(router)
    notifications.add_to(router)
    return router


async def answer_refusal(_request: Request, error: Exception) -> Response:
    """A name that no store takes, or a store that is away."""
    if isinstance(error, RequestError):
        return JSONResponse({"error": error.message}, 400)
    return JSONResponse({"error": "The store is not available."}, 503)


def _add_health(router: APIRouter, health: Callable[[], Awaitable[Health]]) -> None:
    board = HealthBoard()

    @router.get("/_localstack/health")
    async def show() -> Response:
        return JSONResponse(board.to_page(await health()))

    @router.head("/_localstack/health")
    async def head() -> Response:
        return PlainTextResponse("ok")

    @router.put("/_localstack/health")
    async def put(request: Request) -> Response:
        if not board.put(await read_body(request, PUT_BYTES_MAX)):
            return PlainTextResponse("invalid request", 400)
        return JSONResponse({"status": "OK"})

    @router.post("/_localstack/health")
    async def act(request: Request) -> Response:
        """`restart` and `kill` are ignored: data survives a restart here, and the operator stops the service."""
        action = read_action(await read_body(request, PUT_BYTES_MAX))
        if action is None:
            return PlainTextResponse("invalid request", 400)
        log.warning("localstack.action_ignored", action=action)
        return PlainTextResponse("ok")


def _add_information(router: APIRouter, clock: Clock) -> None:
    started_ms = clock.now_ms()
    session = uuid_text()
    in_docker = _DOCKER_MARK.exists()

    @router.get("/_localstack/info")
    async def info() -> dict[str, Any]:
        now_ms = clock.now_ms()
        return {
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

    @router.get("/_localstack/init")
    async def init() -> dict[str, Any]:
        """There are no init scripts, so every stage but SHUTDOWN is completed at once."""
        return {"completed": {stage: _is_completed(stage) for stage in _STAGES}, "scripts": []}

    @router.get("/_localstack/init/{stage}")
    async def init_stage(stage: str) -> dict[str, Any]:
        if stage.upper() not in _STAGES:
            raise HTTPException(404, f"no such stage {stage}")
        return {"completed": _is_completed(stage.upper()), "scripts": []}

    @router.get("/_localstack/plugins")
    async def plugins() -> dict[str, Any]:
        return {_PROVIDERS: [{"name": name, "is_initialized": True, "is_loaded": True} for name in SERVICES]}


def _is_completed(stage: str) -> bool:
    return stage != "SHUTDOWN"
