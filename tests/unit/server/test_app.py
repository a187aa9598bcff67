"""Pages whose client disconnects, and pages that fail."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

import pytest
import structlog
from botocore.parsers import create_parser
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from structlog.testing import capture_logs

from cns_common.aws.cors import CorsPolicy
from cns_server.admin_address import AdminAddress
from cns_server.app import App, Pages
from cns_server.health import ServiceHealth

SENT = MutableMapping[str, Any]
NO_SHAPE: Any = None


class NoCalls:
    """A front door that claims nothing."""

    cors = CorsPolicy(["https://app.example.com"])

    def claims(self, path: str) -> bool:
        return False


async def _health() -> ServiceHealth:
    return ServiceHealth("green", ready=True, reasons=(), processes=())


async def _metrics() -> str:
    return ""


async def _reset() -> int:
    return 60_000


@pytest.fixture
def app() -> App:
    pages = Pages(
        live=lambda: True,
        leaving=lambda: False,
        health=_health,
        metrics=_metrics,
        shows_names=lambda scope: True,
        certificate=lambda name: None,
        advance_clock=None,
        reset=_reset,
    )
    made = App(NoCalls(), pages, AdminAddress("127.0.0.1:1"), ("/ui/",))  # type: ignore[arg-type]  # it has what pages need of one

    async def reads(request: Request) -> Response:
        return JSONResponse(len(await request.body()))

    async def stage(request: Request) -> Response:
        raise HTTPException(404, f"no such stage {request.path_params['stage']}")

    async def fails(request: Request) -> Response:
        raise ZeroDivisionError

    made.add_routes([Route("/reads", reads, methods=["POST"]), Route("/stages/{stage}", stage), Route("/fails", fails)])
    structlog.reset_defaults()
    return made


async def _ask(
    app: App, method: str, path: str, *messages: SENT, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> list[SENT]:
    left, sent = list(messages), []

    async def receive() -> SENT:
        return left.pop(0)

    async def send(message: SENT) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [*headers],
        "scheme": "http",
    }
    await app({**scope, "http_version": "1.1", "server": ("x", 80), "client": ("192.0.2.1", 1)}, receive, send)
    return sent


@pytest.mark.parametrize(
    ("origin", "status"),
    [(None, 200), (b"http://x", 200), (b"https://evil.example", 403), (b"http://x:8080", 403), (b"null", 403)],
)
async def test_pages_of_other_origins_reset_nothing(app: App, origin: bytes | None, status: int) -> None:
    headers = ((b"host", b"x"), *([] if origin is None else [(b"origin", origin)]))
    start, *_ = await _ask(app, "POST", "/_cns/reset", {"type": "http.request", "body": b""}, headers=headers)
    assert start["status"] == status


async def test_a_client_that_goes_away_is_no_error(app: App) -> None:
    with capture_logs() as logs:
        part = {"type": "http.request", "body": b"x", "more_body": True}
        await _ask(app, "POST", "/reads", part, {"type": "http.disconnect"})
    assert logs == []


async def test_failing_pages_are_answered_and_logged_once_a_second(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(app._crash_lines, "_now_s", lambda: now_s)
    with capture_logs() as logs:
        for _ in range(5):
            sent = await _ask(app, "GET", "/fails", {"type": "http.request", "body": b""})
            assert sent[0]["status"] == 500
        now_s += 1.5
        await _ask(app, "GET", "/fails", {"type": "http.request", "body": b""})
    assert [(line["event"], line["path"], line["suppressed"]) for line in logs] == [
        ("page.crashed", "/fails", 0),
        ("page.crashed", "/fails", 4),
    ]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)


SHAPES: list[tuple[str, tuple[tuple[bytes, bytes], ...]]] = [
    ("query", ()),
    ("query", ((b"authorization", b"AWS4-HMAC-SHA256 Credential=AKIA/20260102/us-east-1/sns/aws4_request"),)),
    ("json", ((b"x-amz-target", b"AmazonSQS.ListQueues"),)),
]


@pytest.mark.spec("protocol.refusal-shape")
@pytest.mark.parametrize(("protocol", "headers"), SHAPES, ids=["query", "query of SNS", "json"])
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/sqs", 404, "UnknownOperationException"),
        ("POST", "/sns/", 404, "UnknownOperationException"),
        ("GET", "/SimpleNotificationService-0.pem", 404, "UnknownOperationException"),
        ("GET", "/ui/queues", 404, "UnknownOperationException"),
        ("POST", "/health", 405, "MethodNotAllowed"),
        ("GET", "/reads", 405, "MethodNotAllowed"),
    ],
)
async def test_refusals_are_in_the_callers_protocol(  # the parts of a request and its refusal
    app: App,
    protocol: str,
    headers: tuple[tuple[bytes, bytes], ...],
    method: str,
    path: str,
    status: int,
    code: str,
) -> None:
    start, *rest = await _ask(app, method, path, {"type": "http.request", "body": b""}, headers=headers)
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    body = b"".join(part.get("body", b"") for part in rest)
    told = create_parser(protocol).parse({"status_code": start["status"], "headers": answered, "body": body}, NO_SHAPE)
    assert (start["status"], told["Error"]["Code"]) == (status, code)
    assert told["Error"]["Message"].endswith(".")


async def test_a_client_that_accepts_json_is_refused_in_json(app: App) -> None:
    accepting = ((b"accept", b"application/json"),)
    _, part = await _ask(app, "POST", "/sqs", {"type": "http.request", "body": b""}, headers=accepting)
    assert json.loads(part["body"])["Error"]["Code"] == "UnknownOperationException"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("GET", "/api/v1/x\n", 404, "NoSuchResource"), ("POST", "/api/v1", 405, "MethodNotAllowed")],
)
async def test_refusals_of_the_rest_api_are_problems(app: App, method: str, path: str, status: int, code: str) -> None:
    app.add_redirections({"/api/v1": "/api/v1/"})
    start, part = await _ask(app, method, path, {"type": "http.request", "body": b""})
    assert (start["status"], json.loads(part["body"])["code"]) == (status, code)


@pytest.mark.parametrize(
    ("method", "path", "status", "admits"),
    [
        ("POST", "/sns", 404, True),
        ("OPTIONS", "/sns", 204, True),
        ("OPTIONS", "/health", 405, False),
        ("OPTIONS", "/ui/queues", 404, False),
        ("OPTIONS", "/api/v1/x", 404, False),
        ("POST", "/_cns/none", 404, False),
    ],
)
async def test_a_page_of_an_admitted_origin_reads_why_its_call_is_refused(
    app: App, method: str, path: str, status: int, admits: bool
) -> None:
    asked = ((b"origin", b"https://app.example.com"), (b"access-control-request-method", b"POST"))
    start, *_ = await _ask(app, method, path, {"type": "http.request", "body": b""}, headers=asked)
    shown = dict(start["headers"]).get(b"access-control-allow-origin")
    assert (start["status"], shown == b"https://app.example.com") == (status, admits)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/SimpleNotificationService-0.pem", "There is no signing certificate of this name."),
        ("/stages/later", "no such stage later"),
    ],
)
async def test_a_refusal_keeps_its_detail(app: App, path: str, text: str) -> None:
    start, part = await _ask(app, "GET", path, {"type": "http.request", "body": b""})
    assert (start["status"], f"<Message>{text}</Message>" in part["body"].decode()) == (404, True)
