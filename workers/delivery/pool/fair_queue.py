"""What waits for one thread of a delivery pool: by groups, which take turns, so that nobody waits for another's burst.

Sends come from the pool's loop, and leave it there or in the thread: any thread may call any of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from cns.endpoints.contract import Request
from cns.endpoints.outcome import Outcome

Prepare = Callable[[], Request]
"""Makes the request in the pool's thread: signing belongs to the send, not to the loop that settles."""


class Send(NamedTuple):
    prepare: Prepare
    outcome: asyncio.Future[Outcome]
    group: str


class Inbox:
    def __init__(self) -> None:
        self._lines: dict[str, deque[Send]] = {}
        self._turns: deque[str] = deque()  # each group that has sends, once
        self._waiting = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return self._waiting

    def put(self, send: Send) -> None:
        with self._lock:
            line = self._lines.get(send.group)
            if line is None:
                line = self._lines[send.group] = deque()
                self._turns.append(send.group)
            line.append(send)
            self._waiting += 1

    def take(self) -> Send | None:
        """The first of the group whose turn it is."""
        with self._lock:
            if not self._turns:
                return None
            group = self._turns.popleft()
            line = self._lines[group]
            send = line.popleft()
            if line:
                self._turns.append(group)
            else:
                del self._lines[group]
            self._waiting -= 1
            return send
