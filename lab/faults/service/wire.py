"""One keep-alive connection to the service: signed calls; exceptions tell whether the outcome of a call is known."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from lab.harness.signing import Credentials, Signer

TIMEOUT_S = 8.0
HOST = "127.0.0.1"
SNS_VERSION = "2010-03-31"

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class NotSent(Exception):
    """No connection: the call had no effect."""


class OutcomeUnknown(Exception):
    """The call may or may not have had its effect: no answer, or an HTTP 5xx."""


class Refused(Exception):
    """The service rejected the request with HTTP 3xx or 4xx; all requests of the load are valid."""


class Wire:
    """Makes one call at a time. Reconnects after a failure, and never repeats a call."""

    def __init__(self, port: int, credentials: Credentials) -> None:
        self._port = port
        self._sqs = Signer(credentials, "sqs", f"{HOST}:{port}")
        self._sns = Signer(credentials, "sns", f"{HOST}:{port}")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def sqs(self, operation: str, members: Mapping[str, object], timeout_s: float = TIMEOUT_S) -> bytes:
        return await self._exchange(self._sqs.call(operation, msgspec.json.encode(members)), timeout_s)

    async def sns(self, action: str, members: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> bytes:
        form = urlencode({"Action": action, "Version": SNS_VERSION, **members})
        return await self._exchange(self._sns.form(form.encode()), timeout_s)

    async def post(self, path: str, body: bytes) -> bytes:
        """A call that needs no signature."""
        return await self._unsigned("POST", path, body)

    async def put(self, path: str, body: bytes) -> bytes:
        return await self._unsigned("PUT", path, body)

    async def _unsigned(self, method: str, path: str, body: bytes) -> bytes:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{self._port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return await self._exchange(head.encode() + body, TIMEOUT_S)

    async def get(self, path: str) -> bytes:
        return await self._exchange(f"GET {path} HTTP/1.1\r\nHost: {HOST}:{self._port}\r\n\r\n".encode(), TIMEOUT_S)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _exchange(self, request: bytes, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = self._streams or await self._connect()
                writer.write(request)
                status, answer = await _read(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self.close()
            raise OutcomeUnknown(repr(error)) from error
        if status >= 500:
            raise OutcomeUnknown(f"HTTP {status}: {answer[:200]!r}")
        if status >= 300:
            raise Refused(f"HTTP {status}: {answer[:500]!r}")
        return answer

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            self._streams = await asyncio.open_connection(HOST, self._port)
        except OSError as error:
            raise NotSent(str(error)) from error
        return self._streams


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return int(head.split(b" ", 2)[1]), await reader.readexactly(int(length[1]) if length else 0)
