"""Signed calls to the service on one keep-alive connection; exceptions tell whether the outcome of a call is known."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from lab.harness.processes import HOST
from lab.harness.signing import Credentials, Signer
from lab.load.wire import Lane, LoadError, connect

TIMEOUT_S = 8.0
SNS_VERSION = "2010-03-31"


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
        self._lane: Lane | None = None

    async def sqs(self, operation: str, members: Mapping[str, object]) -> bytes:
        return await self._exchange(self._sqs.call(operation, msgspec.json.encode(members)))

    async def sns(self, action: str, members: Mapping[str, str]) -> bytes:
        form = urlencode({"Action": action, "Version": SNS_VERSION, **members})
        return await self._exchange(self._sns.form(form.encode()))

    async def post(self, path: str, body: bytes) -> bytes:
        """A call that needs no signature."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {HOST}:{self._port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return await self._exchange(head.encode() + body)

    def close(self) -> None:
        if self._lane is not None:
            self._lane.close()
            self._lane = None

    async def _exchange(self, request: bytes) -> bytes:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if self._lane is None or self._lane.closed:
                    self._lane = await self._connect()
                return await self._lane.ask(request)
        except (TimeoutError, LoadError) as error:
            self.close()
            if isinstance(error, LoadError) and 300 <= error.status < 500:
                raise Refused(str(error)) from error
            raise OutcomeUnknown(str(error)) from error

    async def _connect(self) -> Lane:
        try:
            (lane,) = await connect(self._port, 1)
        except OSError as error:
            raise NotSent(str(error)) from error
        return lane
