"""Signed calls of a CQS elsewhere: AWS JSON 1.0 over kept connections, and what their failures mean.

never sent          tried again for a while, then StoreUnavailable
refused, or 503     StoreUnavailable: nothing was written
anything else       OutcomeUnknown; tried again where the caller says that a repeat does no harm
"""

from __future__ import annotations

import ssl
from typing import TypeVar

import httpx
import msgspec
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from cns_common.aws.auth.accounts import AccessKey
from cns_common.aws.auth.request_signing import SigningCredential, sign
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable

CONNECTIONS_MAX = 100
"""Long polls included, of which each consuming loop has one."""
KEEP_ALIVE_S = 60.0  # below what CQS waits before it closes
CONNECT_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 30.0
"""How long an answer may take beyond what a long poll waits."""
RECONNECT_TIMEOUT_S = 10.0
"""How long calls wait for a CQS that cannot be connected to."""
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 1.0
ERROR_CHARS_MAX = 500

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_UNAVAILABLE = 503

Result = TypeVar("Result")


class Unreachable(StoreUnavailable):
    """No connection: the request was not sent."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where CQS is, and how to sign what it is sent. `tls` None: as this machine trusts."""

    url: str
    key: AccessKey
    region: str
    tls: ssl.SSLContext | None = None


class QueueClient:
    """Calls from one event loop."""

    def __init__(self, place: Place, clock: Clock, *, away_s: float = RECONNECT_TIMEOUT_S) -> None:
        self._place = place
        self._clock = clock
        self._away_s = away_s
        self._url = httpx.URL(place.url.rstrip("/") + "/")
        self._host = self._url.netloc.decode("ascii")
        self._http = httpx.AsyncClient(
            verify=ssl.create_default_context() if place.tls is None else place.tls,
            limits=httpx.Limits(
                max_connections=CONNECTIONS_MAX,
                max_keepalive_connections=CONNECTIONS_MAX,
                keepalive_expiry=KEEP_ALIVE_S,
            ),
            trust_env=False,
        )

    async def call(
        self, action: str, members: object, result: type[Result], *, wait_s: float = 0.0, repeatable: bool = False
    ) -> Result:
        body = msgspec.json.encode(members)
        again: tuple[type[Exception], ...] = (Unreachable, OutcomeUnknown) if repeatable else (Unreachable,)
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(again),
            wait=wait_random_exponential(RETRY_FIRST_S, RETRY_MAX_S),
            stop=stop_after_delay(self._away_s),
            reraise=True,
        ):
            with attempt:
                answer = await self._post(action, body, wait_s)
                return _read(action, answer, result)
        raise AssertionError("tenacity returns or raises")

    async def close(self) -> None:
        await self._http.aclose()

    async def _post(self, action: str, body: bytes, wait_s: float) -> httpx.Response:
        timeout = httpx.Timeout(RESPONSE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=RESPONSE_TIMEOUT_S + wait_s)
        try:
            return await self._http.post(self._url, content=body, headers=self._headers(action, body), timeout=timeout)
        except _NEVER_SENT as error:
            raise Unreachable(f"CQS at {self._url} cannot be reached: {_said(error)}") from error
        except httpx.TransportError as error:
            raise OutcomeUnknown(f"{action}: CQS at {self._url} did not answer: {_said(error)}") from error

    def _headers(self, action: str, body: bytes) -> dict[str, str]:
        headers = {
            "host": self._host,
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"AmazonSQS.{action}",
        }
        return headers | sign(
            method="POST",
            path=self._url.path,
            headers=headers,
            body=body,
            credential=SigningCredential(self._place.key.key_id, self._place.key.secret, self._place.region, "sqs"),
            now_ms=self._clock.real_ms(),
        )


def _read(action: str, answer: httpx.Response, result: type[Result]) -> Result:
    if answer.status_code == httpx.codes.OK:
        try:
            return msgspec.json.decode(answer.content, type=result)
        except msgspec.MsgspecError as error:
            raise OutcomeUnknown(f"{action}: an answer that is none of CQS's: {error}") from error
    text = f"{action}: CQS answered {answer.status_code}: {answer.text[:ERROR_CHARS_MAX]}"
    if answer.is_client_error or answer.status_code == _UNAVAILABLE:
        raise StoreUnavailable(text)
    raise OutcomeUnknown(text)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
