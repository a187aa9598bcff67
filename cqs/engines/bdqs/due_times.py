"""Wakes the waiters of this process: for what it writes itself, at due times, and for what other processes wrote.

Nothing tells a process of another's messages. While a queue has waiters here, its index is looked at every
`POLL_INTERVAL_S`.
"""

from __future__ import annotations

from cqs.engines.waiters import WaiterRegistry

POLL_INTERVAL_S = 0.5


class DueTimes:
    """When the next hidden message of a queue with waiters becomes visible, or earlier."""

    def __init__(self, waiters: WaiterRegistry) -> None:
        self._waiters = waiters
        self._due: dict[str, int] = {}

    def expect(self, queue_id: str, due_ms: int, now_ms: int) -> None:
        """Wake a waiter at `due_ms`, or earlier if another message is due."""
        if queue_id not in self._waiters:
            self._due.pop(queue_id, None)
            return
        before_ms = self._due.get(queue_id)
        if before_ms is None or before_ms <= now_ms or due_ms < before_ms:
            self.set(queue_id, due_ms)

    def set(self, queue_id: str, due_ms: int | None) -> None:
        """The next message becomes visible then; None: no message is hidden."""
        self._due.pop(queue_id, None)
        if due_ms is not None and queue_id in self._waiters:
            self._due[queue_id] = due_ms
            self._waiters.wake_at(queue_id, due_ms)
