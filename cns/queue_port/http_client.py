"""Signed calls to a CQS elsewhere over kept connections, and what their failures mean.

not sent            retried until RECONNECT_TIMEOUT_S, then StoreUnavailable
4xx or 503          StoreUnavailable: nothing was written, unless a header of the 503 says that this is unknown
anything else       OutcomeUnknown; retried when the caller says that a repeat does no harm
"""

from __future__ import annotations

import ssl
from typing import TypeVar

import httpx
import msgspec
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from cns.queue_port.sqs_requests import SqsRequest, SqsService, error_of, signed_request
from cns_common.aws.protocol.errors import OUTCOME_UNKNOWN
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable

CONNECTIONS_MAX = 100
"""Long polls included: each consumer loop has one."""
KEEP_ALIVE_S = 60.0  # less than CQS keeps an idle connection
CONNECT_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 30.0
"""Time for a response, besides the time that a long poll waits."""
RECONNECT_TIMEOUT_S = 10.0
"""The time for which calls are retried while CQS cannot be connected to."""
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 1.0
ERROR_CHARS_MAX = 500

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_UNAVAILABLE = 503

Result = TypeVar("Result")


class Unreachable(StoreUnavailable):
    """No connection: the request was not sent."""


class QueueClient:
    """Calls from one event loop. Without `tls` it trusts the authorities that this machine trusts."""

    def __init__(
        self,
        service: SqsService,
        region: str,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None = None,
        reconnect_timeout_s: float = RECONNECT_TIMEOUT_S,
    ) -> None:
        self._service = service
        self._region = region
        self._clock = clock
        self._reconnect_timeout_s = reconnect_timeout_s
        self._http = httpx.AsyncClient(
            verify=ssl.create_default_context() if tls is None else tls,
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
        """Call `action` and decode its response. `wait_s` is the time of a long poll. A `repeatable` call is also
        retried when its outcome is unknown."""
        retried: tuple[type[Exception], ...] = (Unreachable, OutcomeUnknown) if repeatable else (Unreachable,)
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(retried),
            wait=wait_random_exponential(RETRY_FIRST_S, RETRY_MAX_S),
            stop=stop_after_delay(self._reconnect_timeout_s),
            reraise=True,
        ):
            with attempt:
                now_ms = self._clock.real_ms()
                request = signed_request(self._service, self._region, action, members, now_ms)
                return _result(action, await self._post(action, request, wait_s), result)
        raise AssertionError("tenacity returns or raises")

    async def close(self) -> None:
        await self._http.aclose()

    async def _post(self, action: str, request: SqsRequest, wait_s: float) -> httpx.Response:
        timeout = httpx.Timeout(RESPONSE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=RESPONSE_TIMEOUT_S + wait_s)
        url, headers, body = request
        try:
            return await self._http.post(url, content=body, headers=headers, timeout=timeout)
        except _NEVER_SENT as error:
            raise Unreachable(f"CQS at {url} cannot be reached: {_text_of(error)}") from error
        except httpx.TransportError as error:
            raise OutcomeUnknown(f"{action}: CQS at {url} did not answer: {_text_of(error)}") from error


def _result(action: str, response: httpx.Response, result: type[Result]) -> Result:
    if response.status_code == httpx.codes.OK:
        try:
            return msgspec.json.decode(response.content, type=result)
        except msgspec.MsgspecError as error:
            raise OutcomeUnknown(f"{action}: an answer that is none of CQS's: {error}") from error
    code, message = error_of(response.content)
    reason = f"{code}: {message}" if code else response.text
    text = f"{action}: CQS answered {response.status_code}: {reason[:ERROR_CHARS_MAX]}"
    unknown = OUTCOME_UNKNOWN in [(name.lower(), value) for name, value in response.headers.raw]
    if response.is_client_error or (response.status_code == _UNAVAILABLE and not unknown):
        raise StoreUnavailable(text)
    raise OutcomeUnknown(text)


def _text_of(error: Exception) -> str:
    return str(error) or type(error).__name__
