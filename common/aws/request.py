"""An HTTP request as the front door takes it, from whatever server read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class HttpRequest:
    """Header names are lower case; `fields` holds the last of each name. `body` is None when it was too large."""

    method: str
    path: str  # decoded
    raw_path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    scheme: str
    source_ip: str
    body: bytes | None
    hang_up: Callable[[], Awaitable[object]]  # returns once the caller has gone
    fields: dict[bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.fields = dict(self.headers)
