"""The answers of an API process whose site stands by: in the caller's protocol, without names for a stranger."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.parsers import create_parser
from starlette.requests import Request
from starlette.responses import Response

from cns_backend.sites.decision import SiteStatus
from cns_common.configuration.settings import Settings
from cns_server.standby import Standby

NO_SHAPE: Any = None
TOKEN = "the-token-of-this-test"
STATUS = SiteStatus(
    site="oslo-1",
    other="bergen-2",
    active="bergen-2",
    epoch=3,
    acting=False,
    other_reachable=True,
    activated_alone=False,
)


def answered(data: Path, method: str, path: str, headers: list[tuple[bytes, bytes]]) -> Response:
    site: Any = SimpleNamespace(why_standing_by="site bergen-2 is active, this is oslo-1", status=lambda: STATUS)
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    with socket.socket() as listener:
        settings = Settings(data=data, metrics_token=TOKEN, cors_origins=("https://app.example.com",))
        return Standby(settings, site, [listener])._response(Request(scope))


@pytest.mark.parametrize(
    ("protocol", "headers"), [("query", []), ("json", [(b"x-amz-target", b"AmazonSQS.ListQueues")])]
)
@pytest.mark.parametrize("path", ["/", "/sns"])
def test_calls_are_refused_in_their_protocol(tmp_path: Path, protocol: str, headers: list[Any], path: str) -> None:
    answer = answered(tmp_path, "POST", path, headers)
    told = create_parser(protocol).parse(
        {"status_code": answer.status_code, "headers": dict(answer.headers), "body": bytes(answer.body)}, NO_SHAPE
    )
    assert (answer.status_code, told["Error"]["Code"]) == (503, "ServiceUnavailable")
    assert (told["Error"]["Message"], answer.headers["retry-after"]) == ("This site stands by.", "1")


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("path", ["/health", "/ready", "/", "/metrics"])
def test_names(tmp_path: Path, path: str, names: bool) -> None:
    headers = [(b"authorization", f"Bearer {TOKEN}".encode())] if names else []
    shown = bytes(answered(tmp_path, "GET", path, headers).body).decode()
    assert ("oslo" in shown or "bergen" in shown) == (names and path in ("/health", "/ready"))


@pytest.mark.parametrize(("method", "status"), [("POST", 503), ("OPTIONS", 204)])
def test_a_page_of_an_admitted_origin_reads_the_refusal(tmp_path: Path, method: str, status: int) -> None:
    asked = [(b"origin", b"https://app.example.com"), (b"access-control-request-method", b"POST")]
    answer = answered(tmp_path, method, "/", asked)
    shown = answer.headers["access-control-allow-origin"]
    assert (answer.status_code, shown) == (status, "https://app.example.com")
