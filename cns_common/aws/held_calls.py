"""Calls that wait for a store that is away, bounded in time and in the memory that they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from cns_common.aws.http_request import REQUEST_BYTES, HttpRequest
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.errors import CnsError, OutcomeUnknown, StoreAway

Absence = Callable[[], asyncio.Future[None] | None]
"""None while the store answers; else a future that is done when it is back."""


class HeldCalls:
    def __init__(self, absence: Absence, *, limit_s: float, bytes_max: int) -> None:
        self.absence = absence
        self.limit_s = limit_s
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: set[asyncio.Future[bool]] = set()

    def __len__(self) -> int:
        return len(self._held)

    async def answer(
        self,
        request: HttpRequest,
        answer: Callable[[HttpRequest], Awaitable[HttpAnswer]],
        refuse: Callable[[HttpRequest, CnsError], HttpAnswer],
    ) -> HttpAnswer:
        """Answer a request when the store is back, before it is known who sends it: that may need the store."""
        try:
            await self._until_back(request)
        except StoreAway as away:
            return refuse(request, away)
        return await answer(request)

    async def _until_back(self, request: HttpRequest) -> None:
        """Wait for the store. Raises StoreAway after the time limit, at the call's deadline, when the client is gone,
        and at once when the calls held are too large together."""
        absence = self.absence()
        if absence is None:
            return
        size_bytes = REQUEST_BYTES + len(request.body or b"")
        if self._bytes + size_bytes > self._bytes_max:
            raise StoreAway("too many calls wait for the store")
        if not self._held:
            absence.add_done_callback(self._release)
        loop = asyncio.get_running_loop()
        held: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(self.limit_s, _end, held)
        request.when_gone(partial(_end, held))
        self._held.add(held)
        self._bytes += size_bytes
        try:
            is_back = await held
        except OutcomeUnknown:  # the deadline of the call, which has done nothing yet
            is_back = False
        finally:
            timer.cancel()
            self._held.discard(held)
            self._bytes -= size_bytes
        if not is_back:
            raise StoreAway("the store is away")

    def _release(self, _: object) -> None:
        for held in self._held:
            _end(held, is_back=True)


def _end(held: asyncio.Future[bool], *, is_back: bool = False) -> None:
    if not held.done():
        held.set_result(is_back)
