"""HTTP(S) endpoints: one POST, classified. aiohttp, with sockets from the address guard (ADR 0003: why not httpx)."""

from __future__ import annotations

import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import msgspec
from msgspec.structs import replace
from yarl import URL

from cns.endpoints.guard import AddressGuard, AddressRefused
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome

RESPONSE_BYTES_MAX = 64 * 1024
"""What is read of an answer, so that the connection can be used again; a longer one costs the connection."""
KEEP_ALIVE_S = 30.0
DNS_CACHE_S = 10
_SKIPPED = frozenset({"Accept"})  # a header that aiohttp adds and SNS does not send


class HttpRequest(msgspec.Struct, frozen=True):
    """What is to be posted."""

    url: str
    headers: dict[str, str]
    body: bytes


class HttpSender:
    """Posts from one event loop. `wall_s` reads Retry-After dates."""

    def __init__(
        self,
        guard: AddressGuard,
        *,
        timeout_s: float,
        wall_s: Callable[[], float],
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self._wall_s = wall_s
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                ttl_dns_cache=DNS_CACHE_S,
                keepalive_timeout=KEEP_ALIVE_S,
                socket_factory=guard.socket_for,
                ssl=verify,
            ),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_SKIPPED,
            trust_env=False,
        )

    async def send(self, request: HttpRequest) -> Outcome:
        """One attempt, which ends within the timeout."""
        started_s = time.monotonic()
        try:
            status, headers = await self._post(request)
        except TimeoutError:
            return Failed(Cause.TIMEOUT, "the endpoint did not answer in time", _since_ms(started_s))
        except aiohttp.InvalidURL as error:
            return Failed(Cause.INVALID_URL, str(error), _since_ms(started_s), permanent=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _broken(error, _since_ms(started_s))
        return self._classify(status, headers, _since_ms(started_s))

    async def close(self) -> None:
        await self._session.close()

    async def _post(self, request: HttpRequest) -> tuple[int, Any]:
        url = URL(request.url, encoded=True)
        name, password = url.user, url.password or ""
        if name is None:
            return await self._exchange(url, request, {})
        url = url.with_user(None)
        status, headers = await self._exchange(url, request, {})
        if status != 401:
            return status, headers
        # credentials of an endpoint's URL are sent only in answer to a challenge, as AWS does
        scheme = headers.get("www-authenticate", "").partition(" ")[0].lower()
        if scheme == "basic":
            credentials = b64encode(f"{name}:{password}".encode()).decode("ascii")
            signed = replace(request, headers={**request.headers, "Authorization": f"Basic {credentials}"})
            return await self._exchange(url, signed, {})
        if scheme == "digest":
            return await self._exchange(url, request, {"middlewares": (aiohttp.DigestAuthMiddleware(name, password),)})
        return status, headers

    async def _exchange(self, url: URL, request: HttpRequest, options: dict[str, Any]) -> tuple[int, Any]:
        async with self._session.post(
            url, data=request.body, headers=request.headers, allow_redirects=False, **options
        ) as response:
            if (response.content_length or 0) <= RESPONSE_BYTES_MAX:
                await response.content.read(RESPONSE_BYTES_MAX)
            return response.status, response.headers

    def _classify(self, status: int, headers: Any, dwell_ms: int) -> Outcome:
        if 200 <= status < 300:
            return Delivered(status, dwell_ms)
        retryable = status >= 500 or status == 429
        return Failed(
            Cause.STATUS,
            f"HTTP {status}",
            dwell_ms,
            status=status,
            permanent=not retryable,
            retry_after_s=self._retry_after_s(headers.get("retry-after", "")) if retryable else 0.0,
        )

    def _retry_after_s(self, text: str) -> float:
        text = text.strip()
        if text.isdecimal():
            return float(text)
        try:
            return max(parsedate_to_datetime(text).timestamp() - self._wall_s(), 0.0)
        except ValueError:
            return 0.0


def _since_ms(started_s: float) -> int:
    return int((time.monotonic() - started_s) * 1000)


def _broken(error: BaseException, dwell_ms: int) -> Failed:
    """Names the cause, which aiohttp may have wrapped several times."""
    cause = Cause.CONNECTION
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, AddressRefused):
            return Failed(Cause.REFUSED_ADDRESS, str(chain), dwell_ms, permanent=True)
        if isinstance(chain, aiohttp.ClientConnectorDNSError):
            cause = Cause.DNS
        elif isinstance(chain, ssl.SSLError | aiohttp.ClientSSLError):
            cause = Cause.TLS
        chain = chain.__cause__ or chain.__context__
    return Failed(cause, str(error) or type(error).__name__, dwell_ms)
