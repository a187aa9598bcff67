"""Reads the body of a page's request, up to a limit."""

from __future__ import annotations

from starlette.requests import Request


async def read_body(request: Request, bytes_max: int) -> bytes | None:
    """The body; None when it is larger than `bytes_max`."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            return None
    return bytes(body)
