"""A web endpoint that answers notifications with floods of bytes; it confirms its own subscriptions.

The path names the flood: `/trailers/7`. A flood ends after FLOOD_BYTES, or when the service hangs up.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

FLOOD_BYTES = 64_000_000
"""The most bytes sent in answer to one notification."""
PIECE = 64 * 1024
SEND_S = 30.0
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
FIELDS = (b"a: " + b"x" * 59 + b"\r\n") * (PIECE // 64)

FLOODS: Mapping[str, tuple[bytes, bytes]] = {
    "trailers": (CHUNKED + b"0\r\n", FIELDS),
    "trailer-value": (CHUNKED + b"0\r\na: ", b"x" * PIECE),
    "chunk-extensions": (CHUNKED + b"1;", b"x" * PIECE),
    "tiny-chunks": (CHUNKED, b"2\r\nxx\r\n" * (PIECE // 7)),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n", b"x" * PIECE),
    "body-until-close": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * PIECE),
    "head-fields": (b"HTTP/1.1 200 OK\r\n", FIELDS),
    "head-value": (b"HTTP/1.1 200 OK\r\na: ", b"x" * PIECE),
    "reason": (b"HTTP/1.1 200 ", b"x" * PIECE),
    "interim-answers": (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * (PIECE // 27)),
    "answers-nobody-asked-for": (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * (PIECE // 38)),
}
"""Floods by name: the beginning of the response, and the piece that is repeated."""


class HostileEndpoint(socketserver.ThreadingTCPServer):
    """`confirm` is called with the token of each confirmation that comes. Counts what it does."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 200

    def __init__(self, confirm: Callable[[str, str], None], flood_bytes: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._confirm = confirm
        self._lock = threading.Lock()
        self.flood_bytes = flood_bytes
        self.floods = self.hang_ups = self.sent_bytes = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def confirm(self, topic_arn: str, token: str) -> None:
        self._confirm(topic_arn, token)

    def flooded(self, sent_bytes: int, *, hung_up: bool) -> None:
        with self._lock:
            self.floods += 1
            self.hang_ups += hung_up
            self.sent_bytes += sent_bytes


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HostileEndpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["Type"] == "SubscriptionConfirmation":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.server.confirm(body["TopicArn"], body["Token"])
            return
        self.close_connection = True
        self._flood(*FLOODS[self.path.split("/")[1]])

    def _flood(self, beginning: bytes, piece: bytes) -> None:
        sent, hung_up = 0, False
        self.connection.settimeout(SEND_S)
        try:
            self.connection.sendall(beginning)
            while sent < self.server.flood_bytes:
                self.connection.sendall(piece)
                sent += len(piece)
        except OSError:
            hung_up = True
        self.server.flooded(sent, hung_up=hung_up)

    def log_message(self, *_: object) -> None:
        """Log nothing. The program counts instead."""


@contextmanager
def hostile_endpoint(confirm: Callable[[str, str], None], flood_bytes: int = FLOOD_BYTES) -> Iterator[HostileEndpoint]:
    server = HostileEndpoint(confirm, flood_bytes)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
