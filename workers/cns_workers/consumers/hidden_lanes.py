"""The lanes whose heads (first jobs) are hidden until their endpoint has room: then they are made visible at once."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

import structlog

from cns.queue_port.contract import QueuePort, Renewal
from cns_common.errors import CnsError
from cns_workers.delivery.traffic.endpoint_state import BLOCKED_S

SHOWN_A_STEP = 100

log = structlog.get_logger(__name__)


class HiddenLanes:
    """A head is forgotten when its visibility timeout ends, so nothing is kept of endpoints that are gone."""

    def __init__(self) -> None:
        self._handles: dict[str, dict[str, str]] = {}  # by the endpoint's key, then by lane
        self._expiries: list[tuple[float, str, str, str]] = []  # a heap

    def __len__(self) -> int:
        return sum(map(len, self._handles.values()))

    def add(self, key: str, lane: str, handle: str, now_s: float) -> None:
        """Note a head that becomes visible by itself after `BLOCKED_S`."""
        self.forget_visible(now_s)
        self._handles.setdefault(key, {})[lane] = handle
        heapq.heappush(self._expiries, (now_s + BLOCKED_S, key, lane, handle))

    def take(self, key: str) -> list[str]:
        """Remove the heads that wait for this key, and return their handles."""
        return list(self._handles.pop(key, {}).values())

    def forget_visible(self, now_s: float) -> None:
        while self._expiries and self._expiries[0][0] <= now_s:
            self._forget(*heapq.heappop(self._expiries)[1:])

    def _forget(self, key: str, lane: str, handle: str) -> None:
        lanes = self._handles.get(key, {})
        if lanes.get(lane) == handle:  # else it was hidden anew since
            del lanes[lane]
            if not lanes:
                del self._handles[key]


class HeadUnhider:
    """Makes hidden heads of one queue visible, many in one step: the end of one hanging send may make room for
    hundreds."""

    def __init__(self, queue: str, port: QueuePort) -> None:
        self._queue = queue
        self._port = port
        self._waiting: deque[Iterator[str]] = deque()
        self._showing: asyncio.Task[None] | None = None

    def show(self, handles: Iterable[str]) -> None:
        self._waiting.append(iter(handles))
        if self._showing is None or self._showing.done():
            self._showing = asyncio.create_task(self._show())

    async def _show(self) -> None:
        while handles := self._next():
            try:
                await self._port.settle(self._queue, renewals=[Renewal(self._queue, handle, 0) for handle in handles])
            except CnsError as error:  # they become visible by themselves later
                log.info("lanes.wake_failed", queue=self._queue, heads=len(handles), error=str(error))

    def _next(self) -> list[str]:
        handles: list[str] = []
        while self._waiting and len(handles) < SHOWN_A_STEP:
            handles += islice(self._waiting[0], SHOWN_A_STEP - len(handles))
            if len(handles) < SHOWN_A_STEP:
                self._waiting.popleft()
        return handles
