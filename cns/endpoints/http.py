"""HTTP(S) endpoints: one POST, and its outcome. ADR 0003 says why the HTTP client is our own."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.connect import connection_failure
from cns.endpoints.contract import Request
from cns.endpoints.egress import Connector
from cns.endpoints.http_auth import DigestInput, authorization, challenges, has_stale_nonce
from cns.endpoints.http_connection import ConnectionClosed, HttpConnection, HttpResponse
from cns.endpoints.http_pool import HttpConnectionPool
from cns.endpoints.http_url import HttpTarget, target_of
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Cause, Delivered, Failed, Outcome
from cns_common.configuration.proxy_url import EgressProxy

_UNAUTHORIZED = 401
BODY_SHOWN_BYTES_MAX = 200
"""Bytes of an error response's body in logs and in `cns explain`."""
CHALLENGES_MAX = 2
"""Challenges answered in one attempt: the first, and one more when the nonce was stale."""

POSTED_AGAIN = "the connection was idle, so the post was repeated at once"
DATE_CHARS_MAX = 64
"""A date of RFC 9110 has 29 characters."""


class EndpointRequest(Request, frozen=True):
    """One POST. `headers` lacks Host, Content-Length and Connection, which the sender adds."""

    url: str
    headers: dict[str, str]
    body: bytes


class _Attempt:
    """One attempt: one request, or several when the endpoint asks for credentials. `deadline_s` is loop time."""

    __slots__ = ("closed", "deadline_s", "started_s")

    def __init__(self, timeout_s: float) -> None:
        self.started_s = time.monotonic()
        self.deadline_s = asyncio.get_running_loop().time() + timeout_s
        self.closed: Failed | None = None  # the post on an idle connection that the endpoint closed

    @property
    def dwell_ms(self) -> int:
        return int((time.monotonic() - self.started_s) * 1000)


class HttpSender:
    """Posts from one event loop. `wall_s` is the wall clock, for dates in Retry-After."""

    def __init__(
        self,
        guard: AddressGuard,
        *,
        timeout_s: float,
        wall_s: Callable[[], float],
        verify: ssl.SSLContext,
        proxy: EgressProxy | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._wall_s = wall_s
        self._pool = HttpConnectionPool(Connector(guard, proxy), verify)

    async def send(self, request: EndpointRequest) -> Outcome:
        """Make one attempt, which ends within the timeout."""
        response = await self.post(request)
        return response if isinstance(response, Failed) else self._classify(response, len(request.body))

    async def post(self, request: EndpointRequest) -> HttpResponse | Failed:
        """Make one attempt and return the response whatever its status."""
        attempt = _Attempt(self._timeout_s)
        response = await self._post_to_target(attempt, request)
        if attempt.closed is None:
            return response
        if isinstance(response, Failed):
            return msgspec.structs.replace(response, repeats=attempt.closed)
        return response._replace(repeats=attempt.closed)

    async def _post_to_target(self, attempt: _Attempt, request: EndpointRequest) -> HttpResponse | Failed:
        target = target_of(request.url)
        if target is None:  # the URL stays out of the text: it may hold a password
            return Failed(Cause.INVALID_URL, "not a URL that can be posted to", 0, permanent=True)
        try:
            return await self._post_authorized(attempt, target, request)
        except TimeoutError as error:
            _forget_frames(error)
            return Failed(Cause.TIMEOUT, "the endpoint did not answer in time", attempt.dwell_ms)
        except (OSError, ValueError) as error:
            _forget_frames(error)
            return connection_failure(error, attempt.dwell_ms)

    async def close(self) -> None:
        self._pool.close()

    def retry_after_s(self, response: HttpResponse) -> float:
        """Seconds from the Retry-After header; infinite when the number has too many digits. 0 without the header, and
        for a date that is malformed or longer than DATE_CHARS_MAX."""
        text = next(iter(response.fields("retry-after")), "").strip()
        if text.isdecimal():
            return float(text)
        if len(text) > DATE_CHARS_MAX:
            return 0.0
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, OverflowError):  # a year, an hour or a zone with too many digits
            return 0.0
        at = date if date.tzinfo else date.replace(tzinfo=UTC)  # dates in HTTP are GMT, with or without a zone
        return max(at.timestamp() - self._wall_s(), 0.0)

    async def _post_authorized(self, attempt: _Attempt, target: HttpTarget, request: EndpointRequest) -> HttpResponse:
        """Post; as on AWS, credentials in the URL are sent only after a challenge."""
        response = await self._exchange(attempt, target, request.headers, request.body)
        if response.status != _UNAUTHORIZED or target.credentials is None:
            return response
        for answered in range(CHALLENGES_MAX):
            offered = challenges(response.fields("www-authenticate"))
            if response.status != _UNAUTHORIZED or (answered and not has_stale_nonce(offered)):
                break
            credentials = authorization(offered, target.credentials, DigestInput(target.path, request.body))
            if credentials is None:
                break
            response = await self._exchange(
                attempt, target, {**request.headers, "Authorization": credentials}, request.body
            )
        return response

    async def _exchange(
        self, attempt: _Attempt, target: HttpTarget, headers: Mapping[str, str], body: bytes
    ) -> HttpResponse:
        """Post over an idle connection, else over a new one. The endpoint may close an idle connection just as it is
        written to: then post once more, which events report as another attempt. At worst that is one duplicate."""
        head = _head(target, headers, len(body))
        idle = self._pool.take(target.origin)
        if idle is not None:
            try:
                return await self._post(attempt, idle, head, body)
            except ConnectionClosed as error:
                _forget_frames(error)
                attempt.closed = Failed(Cause.CONNECTION, f"{error}: {POSTED_AGAIN}", attempt.dwell_ms)
        new = await self._pool.open(target.origin, attempt.deadline_s)
        return await self._post(attempt, new, head, body)

    async def _post(self, attempt: _Attempt, connection: HttpConnection, head: bytes, body: bytes) -> HttpResponse:
        try:
            return await connection.post(head, body, started_s=attempt.started_s, deadline_s=attempt.deadline_s)
        finally:
            self._pool.give_back(connection)

    def _classify(self, response: HttpResponse, size_bytes: int) -> Outcome:
        if 200 <= response.status < 300:
            reason = response.reason[:RESPONSE_CHARS_MAX]
            return Delivered(
                response.status, response.dwell_ms, response=reason, size_bytes=size_bytes, repeats=response.repeats
            )
        # below 200 is only 101, which no request asked for: the endpoint is faulty
        retryable = response.status >= 500 or response.status == 429 or response.status < 200
        return Failed(
            Cause.STATUS,
            _status_text(response),
            response.dwell_ms,
            status=response.status,
            permanent=not retryable,
            retry_after_s=self.retry_after_s(response) if retryable else 0.0,
            response=response.reason[:RESPONSE_CHARS_MAX],
            size_bytes=size_bytes,
            repeats=response.repeats,
        )


def _status_text(response: HttpResponse) -> str:
    """Status, reason phrase and the beginning of the body, which often has the reason."""
    body = response.body[:BODY_SHOWN_BYTES_MAX].decode("utf-8", "replace").strip()
    first = " ".join(filter(None, ["HTTP", str(response.status), response.reason[:RESPONSE_CHARS_MAX]]))
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


def _forget_frames(error: BaseException) -> None:
    """Break the reference cycle between the error and its frames: only the garbage collector, which pauses all sends,
    would free them."""
    for each in _chain(error):
        each.__traceback__ = None


def _chain(error: BaseException) -> Iterator[BaseException]:
    chain: BaseException | None = error
    while chain is not None:
        yield chain
        chain = chain.__cause__ or chain.__context__
