"""The sends that wait for one thread of a delivery pool, in groups that take turns, so that a burst delays only itself.

All methods are thread-safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from cns.endpoints.contract import Request
from cns.endpoints.outcome import Outcome

MakeRequest = Callable[[], Request]
"""Called in the pool's thread."""


class PoolSend(NamedTuple):
    make_request: MakeRequest
    outcome: asyncio.Future[Outcome]
    group: str


class FairQueue:
    def __init__(self) -> None:
        self.size = 0
        self._groups: dict[str, deque[PoolSend]] = {}
        self._turns: deque[str] = deque()  # each group that has sends, once
        self._lock = Lock()

    def put(self, send: PoolSend) -> None:
        with self._lock:
            sends = self._groups.get(send.group)
            if sends is None:
                sends = self._groups[send.group] = deque()
                self._turns.append(send.group)
            sends.append(send)
            self.size += 1

    def take(self) -> PoolSend | None:
        """Remove the first send of the group whose turn it is."""
        with self._lock:
            if not self._turns:
                return None
            group = self._turns.popleft()
            sends = self._groups[group]
            send = sends.popleft()
            if sends:
                self._turns.append(group)
            else:
                del self._groups[group]
            self.size -= 1
            return send
