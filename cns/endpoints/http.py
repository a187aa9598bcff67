"""HTTP(S) endpoints: one POST, classified (ADR 0003: why no HTTP client of others)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from cns.endpoints.address_guard import AddressGuard, AddressRefused
from cns.endpoints.http_auth import DigestInput, authorization, challenges, has_stale_nonce
from cns.endpoints.http_connection import ConnectionClosed, HttpConnection, HttpResponse
from cns.endpoints.http_pool import HttpConnectionPool
from cns.endpoints.http_url import HttpTarget, target_of
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Cause, Delivered, Failed, Outcome

_UNAUTHORIZED = 401
BODY_SHOWN_BYTES_MAX = 200
"""Of a refusal's body, in logs and in `cns explain`."""
CHALLENGES_MAX = 2
"""Answered in one attempt: the first, and one for a nonce that went stale."""

DATE_CHARS_MAX = 64
"""A date of RFC 9110 has 29 characters."""


class HttpRequest(msgspec.Struct, frozen=True):
    """What is to be posted."""

    url: str
    headers: dict[str, str]
    body: bytes


class _Attempt:
    """One attempt, of one request or, where credentials are asked for, several. `deadline_s` is of the loop's clock."""

    __slots__ = ("deadline_s", "started_s")

    def __init__(self, timeout_s: float) -> None:
        self.started_s = time.monotonic()
        self.deadline_s = asyncio.get_running_loop().time() + timeout_s

    @property
    def dwell_ms(self) -> int:
        return int((time.monotonic() - self.started_s) * 1000)


class HttpSender:
    """Posts from one event loop. `wall_s` reads Retry-After dates."""

    def __init__(
        self,
        guard: AddressGuard,
        *,
        timeout_s: float,
        wall_s: Callable[[], float],
        verify: ssl.SSLContext,
    ) -> None:
        self._timeout_s = timeout_s
        self._wall_s = wall_s
        self._connections = HttpConnectionPool(guard, verify)

    async def send(self, request: HttpRequest) -> Outcome:
        """One attempt, which ends within the timeout."""
        answer = await self.post(request)
        return answer if isinstance(answer, Failed) else self._classify(answer)

    async def post(self, request: HttpRequest) -> HttpResponse | Failed:
        """The same, for who reads the answer himself."""
        attempt = _Attempt(self._timeout_s)
        target = target_of(request.url)
        if target is None:  # said without its text, which may hold a password
            return Failed(Cause.INVALID_URL, "not a URL that can be posted to", 0, permanent=True)
        try:
            return await self._authorized(attempt, target, request)
        except TimeoutError as error:
            _forget_frames(error)
            return Failed(Cause.TIMEOUT, "the endpoint did not answer in time", attempt.dwell_ms)
        except (OSError, ValueError) as error:
            _forget_frames(error)
            return _broken(error, attempt.dwell_ms)

    async def close(self) -> None:
        self._connections.close()

    def retry_after_s(self, answer: HttpResponse) -> float:
        """The pause that the endpoint asks for, infinite where it has too many digits; 0 where it asks for none, or for
        a date that is malformed or longer than DATE_CHARS_MAX."""
        text = next(iter(answer.fields("retry-after")), "").strip()
        if text.isdecimal():
            return float(text)
        if len(text) > DATE_CHARS_MAX:
            return 0.0
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, OverflowError):  # of a year, an hour or a zone with too many digits
            return 0.0
        at = date if date.tzinfo else date.replace(tzinfo=UTC)  # HTTP's dates are GMT, whether they say so or not
        return max(at.timestamp() - self._wall_s(), 0.0)

    async def _authorized(self, attempt: _Attempt, target: HttpTarget, request: HttpRequest) -> HttpResponse:
        """Credentials of an endpoint's URL are sent only in answer to a challenge, as AWS does."""
        answer = await self._exchange(attempt, target, request.headers, request.body)
        if answer.status != _UNAUTHORIZED or target.credentials is None:
            return answer
        for refused in range(CHALLENGES_MAX):
            asked = challenges(answer.fields("www-authenticate"))
            if answer.status != _UNAUTHORIZED or (refused and not has_stale_nonce(asked)):
                break
            shown = authorization(asked, target.credentials, DigestInput(target.path, request.body))
            if shown is None:
                break
            answer = await self._exchange(attempt, target, {**request.headers, "Authorization": shown}, request.body)
        return answer

    async def _exchange(
        self, attempt: _Attempt, target: HttpTarget, headers: Mapping[str, str], body: bytes
    ) -> HttpResponse:
        """A connection that was kept may be closed by the endpoint just as we write to it: then once more. At worst
        that is a delivery too many, as the next attempt would be, 20 seconds later."""
        head = _head(target, headers, len(body))
        kept = self._connections.take(target.origin)
        if kept is not None:
            try:
                return await self._post(attempt, kept, head, body)
            except ConnectionClosed as error:
                _forget_frames(error)
        fresh = await self._connections.open(target.origin, attempt.deadline_s)
        return await self._post(attempt, fresh, head, body)

    async def _post(self, attempt: _Attempt, connection: HttpConnection, head: bytes, body: bytes) -> HttpResponse:
        try:
            return await connection.post(head, body, started_s=attempt.started_s, deadline_s=attempt.deadline_s)
        finally:
            self._connections.give_back(connection)

    def _classify(self, answer: HttpResponse) -> Outcome:
        if 200 <= answer.status < 300:
            return Delivered(answer.status, answer.dwell_ms, response=answer.reason[:RESPONSE_CHARS_MAX])
        # 101 is all that is left below: nobody asked for another protocol, so the endpoint is out of order
        retryable = answer.status >= 500 or answer.status == 429 or answer.status < 200
        return Failed(
            Cause.STATUS,
            _said(answer),
            answer.dwell_ms,
            status=answer.status,
            permanent=not retryable,
            retry_after_s=self.retry_after_s(answer) if retryable else 0.0,
            response=answer.reason[:RESPONSE_CHARS_MAX],
        )


def _said(answer: HttpResponse) -> str:
    """The status, the words beside it, and the beginning of the body, which is where most say why."""
    body = answer.body[:BODY_SHOWN_BYTES_MAX].decode("utf-8", "replace").strip()
    first = " ".join(filter(None, ["HTTP", str(answer.status), answer.reason[:RESPONSE_CHARS_MAX]]))
    return f"{first}: {body}" if body else first


def _head(target: HttpTarget, headers: Mapping[str, str], body_bytes: int) -> bytes:
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if fields.count("\n") != len(headers) or fields.count("\r") != len(headers) or "\0" in fields:
        raise ValueError("a header of more than one line")
    return (
        f"POST {target.path} HTTP/1.1\r\n"
        f"{fields}"
        f"Content-Length: {body_bytes}\r\n"
        f"Host: {target.host_field}\r\n"
        "Connection: Keep-Alive\r\n"
        "\r\n"
    ).encode()


def _broken(error: Exception, dwell_ms: int) -> Failed:
    text = str(error) or type(error).__name__
    if isinstance(error, AddressRefused):
        return Failed(Cause.REFUSED_ADDRESS, text, dwell_ms, permanent=True)
    if isinstance(error, socket.gaierror):
        return Failed(Cause.DNS, text, dwell_ms)
    return Failed(Cause.TLS if isinstance(error, ssl.SSLError) else Cause.CONNECTION, text, dwell_ms)


def _forget_frames(error: BaseException) -> None:
    """They hold the error, which holds them: objects of each attempt that only a garbage collection would free, while
    every send of the process waits."""
    for each in _chain(error):
        each.__traceback__ = None


def _chain(error: BaseException) -> Iterator[BaseException]:
    chain: BaseException | None = error
    while chain is not None:
        yield chain
        chain = chain.__cause__ or chain.__context__
