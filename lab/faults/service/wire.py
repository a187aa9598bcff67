"""Signed calls to the service on one keep-alive connection; exceptions tell whether the outcome of a call is known."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

from lab.harness.processes import HOST
from lab.harness.signing import Credentials, Signer
from lab.load.wire import Lane, LoadError, connect

TIMEOUT_S = 8.0
SNS_VERSION = "2010-03-31"
_MESSAGE = re.compile(r"<(MessageId|SequenceNumber)>([^<]+)<")


class NotSent(Exception):
    """No connection: the call had no effect."""


class OutcomeUnknown(Exception):
    """The call may or may not have had its effect: no answer, or an HTTP 5xx."""


class Refused(Exception):
    """The service rejected the request with HTTP 3xx or 4xx; all requests of the load are valid."""


@dataclass(frozen=True, slots=True)
class Answer:
    members: dict[str, Any]
    unknown_outcomes: int = 0  # attempts without an answer
    failed: bool = False


class Caller(Protocol):
    """The connection by which a client of a round calls, one call at a time. Names and members are those of boto3."""

    async def call(self, service: str, operation: str, members: Mapping[str, Any]) -> Answer: ...


class Wire:
    """Makes one attempt a call, and raises `Refused`. Reconnects after a failure."""

    def __init__(self, port: int, credentials: Credentials) -> None:
        self._port = port
        self._sqs = Signer(credentials, "sqs", f"{HOST}:{port}")
        self._sns = Signer(credentials, "sns", f"{HOST}:{port}")
        self._lane: Lane | None = None

    async def call(self, service: str, operation: str, members: Mapping[str, Any]) -> Answer:
        """An operation of SQS, or a publish."""
        name = operation.title().replace("_", "")
        try:
            if service == "sqs":
                answer = await self._exchange(self._sqs.call(name, msgspec.json.encode(members)))
                return Answer(msgspec.json.decode(answer) if answer else {})
            form = urlencode({"Action": name, "Version": SNS_VERSION, **dict(_parameters(members))})
            return Answer(_published((await self._exchange(self._sns.form(form.encode()))).decode()))
        except NotSent:
            return Answer({}, failed=True)
        except OutcomeUnknown:
            return Answer({}, unknown_outcomes=1, failed=True)

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
        except asyncio.CancelledError:
            self.close()  # what is answered now has no reader
            raise
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


def _parameters(members: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Members as parameters of the Query protocol."""
    for name, value in members.items():
        if isinstance(value, str):
            yield f"{prefix}{name}", value
        elif isinstance(value, list):
            for number, entry in enumerate(value, 1):
                yield from _parameters(entry, f"{prefix}{name}.member.{number}.")
        else:
            for number, (key, entry) in enumerate(value.items(), 1):
                yield f"{prefix}{name}.entry.{number}.Name", key
                yield from _parameters(entry, f"{prefix}{name}.entry.{number}.Value.")


def _published(answer: str) -> dict[str, Any]:
    """The members of an answer to Publish or PublishBatch."""
    *entries, rest = [dict(_MESSAGE.findall(part)) for part in answer.split("</member>")]
    return {"Successful": entries} if entries else rest
