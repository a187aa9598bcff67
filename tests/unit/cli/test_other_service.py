"""Commands that are told the URL of a server that is no CNS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cns.client import ApiError, Credentials
from cns.client.connection import find_caller
from cns_cli.overview.metrics import ServiceReader, ServiceUnreachable
from cns_common.configuration.settings import Settings


class _Other(BaseHTTPRequestHandler):
    """Answers each page with 200 and `server.content`."""

    def do_GET(self) -> None:
        content: bytes = self.server.content  # type: ignore[attr-defined]  # set by the fixture
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any, **__: Any) -> None:
        pass


@pytest.fixture(params=[b"<html>", b"", b"\xff", b"[1]", b'{"status": "UP"}'])
def other(request: pytest.FixtureRequest) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Other) as server:
        server.content = request.param  # type: ignore[attr-defined]  # read by the handler
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_its_answers_are_no_stack_trace(other: str) -> None:
    with pytest.raises(ServiceUnreachable, match="is no CNS"):
        ServiceReader(Settings(), other).health()
    with pytest.raises(ApiError, match="is no CNS"):
        find_caller(other, Credentials(key_id="k", secret="s"))


def test_a_host_that_is_no_name_does_not_answer() -> None:
    with pytest.raises(ServiceUnreachable, match=r"http://\.\. does not answer"):
        ServiceReader(Settings(), "http://..").health()
