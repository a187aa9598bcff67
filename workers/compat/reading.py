"""The body of a page's request, bounded as those of AWS calls are."""

from __future__ import annotations

from fastapi import Request


async def read_body(request: Request, bytes_max: int) -> bytes | None:
    """None when it is larger."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > bytes_max:
            return None
        parts.append(part)
    return b"".join(parts)
