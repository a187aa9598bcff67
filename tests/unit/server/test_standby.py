"""The answers of an API process whose site stands by."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.parsers import create_parser
from starlette.requests import Request

from cns_common.configuration.settings import Settings
from cns_server.standby import Standby

NO_SHAPE: Any = None


@pytest.mark.parametrize(
    ("protocol", "headers"), [("query", []), ("json", [(b"x-amz-target", b"AmazonSQS.ListQueues")])]
)
@pytest.mark.parametrize("path", ["/", "/sns"])
def test_calls_are_refused_in_their_protocol(protocol: str, headers: list[Any], path: str) -> None:
    site: Any = SimpleNamespace(why_standing_by="site b is active")
    with socket.socket() as listener:
        answer = Standby(Settings(), site, listener)._response(
            Request({"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""})
        )
    told = create_parser(protocol).parse(
        {"status_code": answer.status_code, "headers": dict(answer.headers), "body": bytes(answer.body)}, NO_SHAPE
    )
    assert (answer.status_code, told["Error"]["Code"]) == (503, "ServiceUnavailable")
    assert (told["Error"]["Message"], answer.headers["retry-after"]) == ("This site stands by: site b is active", "1")
