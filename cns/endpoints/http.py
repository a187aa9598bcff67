"""HTTP(S) endpoints: one POST, classified. aiohttp, with sockets from the address guard (ADR 0003: why not httpx)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import aiohttp
import msgspec
from multidict import CIMultiDictProxy
from yarl import URL

from cns.endpoints.challenge import Credentials, Sent, authorization, challenges, went_stale
from cns.endpoints.guard import AddressGuard, AddressRefused
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Cause, Delivered, Failed, Outcome

RESPONSE_BYTES_MAX = 64 * 1024
"""What is read of an answer, so that the connection can be used again; a longer one costs the connection."""
RESPONSE_BODY_S = 1.0
"""How long an answer's body is waited for once its status is known."""
HEADER_BYTES_MAX = 64 * 1024
"""Of one header of an answer: far above what servers and what stands before them send."""
KEEP_ALIVE_S = 30.0
DNS_CACHE_S = 10
_ALWAYS = {"Connection": "Keep-Alive"}
_SKIPPED = frozenset({"Accept", "Accept-Encoding"})
"""Headers that aiohttp adds of its own; SNS sends no Accept, and says itself which encodings it takes."""
_HUNG_UP = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_SCHEMES = ("http", "https")
_UNAUTHORIZED = 401
CHALLENGES_MAX = 2
"""Answered in one attempt: the first, and one for a nonce that went stale."""


class HttpRequest(msgspec.Struct, frozen=True):
    """What is to be posted."""

    url: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """`body` is what came of it: all, where it is short and came at once."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    dwell_ms: int
    reason: str = ""  # the words beside the status


class _Attempt:
    """One attempt, of one request or, where credentials are asked for, several; `connected` when the one under way did
    not go out on a connection that was there."""

    __slots__ = ("connected", "deadline_s", "started_s")

    def __init__(self, timeout_s: float) -> None:
        self.started_s = time.monotonic()
        self.deadline_s = asyncio.get_running_loop().time() + timeout_s
        self.connected = False

    @property
    def dwell_ms(self) -> int:
        return int((time.monotonic() - self.started_s) * 1000)


_ATTEMPT: ContextVar[_Attempt] = ContextVar("attempt")


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
        self._guard = guard
        self._timeout_s = timeout_s
        self._wall_s = wall_s
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                ttl_dns_cache=DNS_CACHE_S,
                keepalive_timeout=KEEP_ALIVE_S,
                socket_factory=self._socket_for,
                ssl=verify,
            ),
            timeout=aiohttp.ClientTimeout(total=None),  # ours is for all requests of an attempt together
            headers=_ALWAYS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_SKIPPED,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            trust_env=False,
        )

    async def send(self, request: HttpRequest) -> Outcome:
        """One attempt, which ends within the timeout."""
        answer = await self.post(request)
        return answer if isinstance(answer, Failed) else self._classify(answer)

    async def post(self, request: HttpRequest) -> Answer | Failed:
        """The same, for who reads the answer himself."""
        attempt = _Attempt(self._timeout_s)
        _ATTEMPT.set(attempt)
        url = _url(request.url)
        if url is None:  # said without its text, which may hold a password
            return Failed(Cause.INVALID_URL, "not a URL that can be posted to", 0, permanent=True)
        try:
            return await self._authorized(attempt, url, request)
        except TimeoutError as error:
            _forget_frames(error)
            return Failed(Cause.TIMEOUT, "the endpoint did not answer in time", attempt.dwell_ms)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            _forget_frames(error)
            return _broken(error, attempt.dwell_ms)

    async def close(self) -> None:
        await self._session.close()

    def retry_after_s(self, headers: Mapping[str, str]) -> float:
        """What the endpoint asks for; 0 when nothing, or nothing that can be read."""
        text = headers.get("retry-after", "").strip()
        if text.isdecimal():
            return float(text)
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, OverflowError):  # of a year, an hour or a zone with too many digits
            return 0.0
        at = date if date.tzinfo else date.replace(tzinfo=UTC)  # HTTP's dates are GMT, whether they say so or not
        return max(at.timestamp() - self._wall_s(), 0.0)

    def _socket_for(self, info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        _ATTEMPT.get().connected = True
        return self._guard.socket_for(info)

    async def _authorized(self, attempt: _Attempt, url: URL, request: HttpRequest) -> Answer:
        """Credentials of an endpoint's URL are sent only in answer to a challenge, as AWS does."""
        if url.user is None and url.password is None:
            return await self._exchange(attempt, url, request.headers, request.body)
        credentials = Credentials(url.user or "", url.password or "")
        url = url.with_user(None)
        answer = await self._exchange(attempt, url, request.headers, request.body)
        for refused in range(CHALLENGES_MAX):
            asked = challenges(answer.headers.getall("www-authenticate", ()))
            if answer.status != _UNAUTHORIZED or (refused and not went_stale(asked)):
                break
            shown = authorization(asked, credentials, Sent(url.raw_path_qs, request.body))
            if shown is None:
                break
            answer = await self._exchange(attempt, url, {**request.headers, "Authorization": shown}, request.body)
        return answer

    async def _exchange(self, attempt: _Attempt, url: URL, headers: Mapping[str, str], body: bytes) -> Answer:
        """A connection that was kept may be closed by the endpoint just as we write to it: then once more. At worst
        that is a delivery too many, as the next attempt would be, 20 seconds later."""
        attempt.connected = False
        try:
            return await self._once(attempt, url, headers, body)
        except aiohttp.ClientConnectorError:
            raise
        except _HUNG_UP:
            if attempt.connected:
                raise
        return await self._once(attempt, url, headers, body)

    async def _once(self, attempt: _Attempt, url: URL, headers: Mapping[str, str], body: bytes) -> Answer:
        """The status decides: an answer whose body never comes, never ends or breaks off costs the connection only."""
        response: aiohttp.ClientResponse | None = None
        dwell_ms = 0
        read = bytearray()
        try:
            async with asyncio.timeout_at(attempt.deadline_s) as limit:
                response = await self._session.post(url, data=body, headers=headers, allow_redirects=False)
                dwell_ms = attempt.dwell_ms
                content = response.content
                if not content.is_eof():
                    limit.reschedule(asyncio.get_running_loop().time() + RESPONSE_BODY_S)
                while not content.at_eof() and len(read) < RESPONSE_BYTES_MAX:
                    read += await content.readany()
        except (TimeoutError, aiohttp.ClientError, OSError):
            if response is None:
                raise
        finally:
            if response is not None:
                response.release() if response.content.at_eof() else response.close()
        return Answer(response.status, response.headers, bytes(read), dwell_ms, response.reason or "")

    def _classify(self, answer: Answer) -> Outcome:
        if 200 <= answer.status < 300:
            return Delivered(answer.status, answer.dwell_ms, response=answer.reason[:RESPONSE_CHARS_MAX])
        # 101 is all that is left below: nobody asked for another protocol, so the endpoint is out of order
        retryable = answer.status >= 500 or answer.status == 429 or answer.status < 200
        return Failed(
            Cause.STATUS,
            f"HTTP {answer.status}",
            answer.dwell_ms,
            status=answer.status,
            permanent=not retryable,
            retry_after_s=self.retry_after_s(answer.headers) if retryable else 0.0,
            response=answer.reason[:RESPONSE_CHARS_MAX],
        )


def _url(text: str) -> URL | None:
    """Its path and query as they are written."""
    try:
        url = URL(text, encoded=True)
        return url if url.scheme in _SCHEMES and url.raw_host and url.port else None
    except ValueError:
        return None


def _broken(error: BaseException, dwell_ms: int) -> Failed:
    """Names the cause, which aiohttp may have wrapped several times."""
    cause = Cause.CONNECTION
    for each in _chain(error):
        if isinstance(each, AddressRefused):
            return Failed(Cause.REFUSED_ADDRESS, str(each), dwell_ms, permanent=True)
        if isinstance(each, aiohttp.ClientConnectorDNSError):
            cause = Cause.DNS
        elif isinstance(each, ssl.SSLError | aiohttp.ClientSSLError):
            cause = Cause.TLS
    return Failed(cause, str(error) or type(error).__name__, dwell_ms)


def _forget_frames(error: BaseException) -> None:
    """Those of aiohttp hold the error, which holds them: ninety objects an attempt that only a garbage collection would
    free, while every send of the process waits."""
    for each in _chain(error):
        each.__traceback__ = None


def _chain(error: BaseException) -> Iterator[BaseException]:
    chain: BaseException | None = error
    while chain is not None:
        yield chain
        chain = chain.__cause__ or chain.__context__
