"""Figures that change, as server-sent events: read only while a page is open and looked at."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cns_common.errors import CnsError
from cns_server.pages.context import PageContext
from cns_server.pages.sessions import Session
from cns_server.rest.problems import Problem

LIVE_INTERVAL_S = 2.0
LIVE_S_MAX = 600
"""The longest stream; the page then connects again."""
SESSION_STREAMS_MAX = 6
"""Streams of a session that are open in a process. Browsers open as many connections to a host."""
ACCOUNT_STREAMS_MAX = 30


def live_response(
    request: Request, context: PageContext, session: Session, first: str, read: Callable[[], Awaitable[str | None]]
) -> StreamingResponse:
    """Send `first`, then what `read` returns when it differs from what was sent before; None ends the stream,
    and so do the end of the session and a CnsError. Raises Problem 429 for one stream too many."""

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
            try:
                if not await context.is_signed_in(request):  # any more
                    return
                text = await read()
            except CnsError:  # too late for an answer that tells it; the page connects again
                return

    holders = {session.principal.session_id: SESSION_STREAMS_MAX, f"account {session.account}": ACCOUNT_STREAMS_MAX}
    if any(context.streams[holder] >= most for holder, most in holders.items()):
        raise Problem(429, "TooManyStreams", "Too many pages of the session or account follow their figures.")
    return _LiveResponse(events(), context.streams, holders)


class _LiveResponse(StreamingResponse):
    """Counts for its holders until it has ended, or its client has gone."""

    def __init__(self, events: AsyncIterator[str], streams: Counter[str], holders: Iterable[str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._streams, self._held = streams, Counter(list(holders))
        self._streams += self._held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams -= self._held
