"""Cross-origin calls of SDKs in browsers (the fetch standard's CORS protocol). Credentials are never allowed: calls are
signed, and cookies are of the pages alone."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import HttpAnswer

PREFLIGHT_CACHED_S = 7_200
"""The longest time for which Chromium caches a preflight."""
_ANY = "*"
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, HEAD, POST"),
    (
        b"access-control-allow-headers",
        b"amz-sdk-invocation-id, amz-sdk-request, authorization, content-type, x-amz-content-sha256, x-amz-date, "
        b"x-amz-security-token, x-amz-target, x-amz-user-agent, x-amzn-query-mode, x-amzn-trace-id",
    ),
    (b"access-control-max-age", b"%d" % PREFLIGHT_CACHED_S),
]
_EXPOSED = (b"access-control-expose-headers", b"date, x-amz-retry-after, x-amzn-query-error, x-amzn-requestid")


class CorsPolicy:
    """`origins` are `scheme://host:port`, with `*` as port for any, or `*` alone."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._any = _ANY in origins
        forms = [re.escape(each).replace(r":\*", "(:[0-9]{1,5})?") for each in origins]
        self._allowed = re.compile("|".join(forms).encode())

    @classmethod
    def of(cls, origins: Sequence[str]) -> CorsPolicy | None:
        """None without origins: no answer mentions any."""
        return cls(origins) if origins else None

    async def answer(self, request: HttpRequest, call: Callable[[HttpRequest], Awaitable[HttpAnswer]]) -> HttpAnswer:
        """The answer to a browser that asks before a call, or that of the call with what pages may see of it."""
        preflight = self.preflight(request.method, request.fields)
        if preflight is not None:
            return preflight
        allowed = self.headers(request.fields)
        answer = await call(request)
        answer.headers.extend(allowed)
        return answer

    def preflight(self, method: str, fields: Mapping[bytes, bytes]) -> HttpAnswer | None:
        """The answer to a browser that asks before a call; None for any other request."""
        if method != "OPTIONS" or b"access-control-request-method" not in fields:
            return None
        allowed = self.headers(fields)
        return HttpAnswer(204, [*allowed, *_PREFLIGHT] if len(allowed) > 1 else allowed, b"")

    def headers(self, fields: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """The headers of an answer. Without permission a browser shows it to no page."""
        if self._any:
            return [(b"access-control-allow-origin", b"*"), _EXPOSED]
        vary = (b"vary", b"origin")
        origin = fields.get(b"origin", b"")
        if self._allowed.fullmatch(origin) is None:
            return [vary]
        return [(b"access-control-allow-origin", origin), _EXPOSED, vary]
