"""An HTTP request as the front door takes it from the HTTP server."""

from __future__ import annotations

from cns_common.aws.call import Extend, WhenGone

REQUEST_BYTES = 5_120
"""Estimated memory of a parsed request that waits, without its body."""


class HttpRequest:
    """Header names are lower case; `fields` has the last header of each name. `body` is None when it was too large."""

    __slots__ = (
        "body",
        "client_subject",
        "extend",
        "fields",
        "headers",
        "method",
        "path",
        "query",
        "raw_path",
        "scheme",
        "source_ip",
        "when_gone",
    )

    def __init__(  # noqa: PLR0913  # one per field; a dataclass would cost each request a further call
        self,
        method: str,
        path: str,  # decoded
        raw_path: bytes,
        query: bytes,
        headers: list[tuple[bytes, bytes]],
        scheme: str,
        source_ip: str,
        when_gone: WhenGone,
        body: bytes | None = None,
        extend: Extend | None = None,
        client_subject: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.raw_path = raw_path
        self.query = query
        self.headers = headers
        self.scheme = scheme
        self.source_ip = source_ip
        self.when_gone = when_gone
        self.extend = extend
        self.client_subject = client_subject
        self.body = body
        self.fields = dict(headers)

    @property
    def origin(self) -> str:
        """Scheme and Host of the request's URL, without a path."""
        return f"{self.scheme}://{self.fields.get(b'host', b'').decode('latin-1')}"

    @property
    def opens_page(self) -> bool:
        """Whether a browser opens the address of the port."""
        opened = self.method == "GET" and self.path in ("", "/") and not self.query
        return opened and b"text/html" in self.fields.get(b"accept", b"")
