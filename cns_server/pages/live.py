"""Figures that change, as server-sent events: read only while a page is open and looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi import Request
from fastapi.responses import StreamingResponse

from cns_server.pages.context import PageContext

LIVE_INTERVAL_S = 2.0
LIVE_S_MAX = 600
"""The longest stream; the page then connects again."""


def live_response(
    request: Request, context: PageContext, first: str, read: Callable[[], Awaitable[str | None]]
) -> StreamingResponse:
    """Send `first`, then what `read` returns when it differs from what was sent before; None ends the stream,
    and so does the end of the session."""

    async def events() -> AsyncIterator[str]:
        text: str | None = first
        shown = ""
        for _ in range(int(LIVE_S_MAX / LIVE_INTERVAL_S)):
            if text is None or context.leaving or await request.is_disconnected():
                return
            if text != shown:
                yield f"data: {text}\n\n"
                shown = text
            await asyncio.sleep(LIVE_INTERVAL_S)
            if not await context.is_signed_in(request):  # any more
                return
            text = await read()

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})
