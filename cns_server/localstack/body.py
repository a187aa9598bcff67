"""The body of a page's request, bounded as those of AWS calls are."""

from __future__ import annotations

from fastapi import Request


async def read_body(request: Request, bytes_max: int) -> bytes | None:
    """None when it is larger."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            return None
    return bytes(body)
