"""Wakes this process's waiters: after its own writes, at due times, and for messages of other processes.

Processes do not notify each other: while a queue has waiters here, its index is read every `POLL_INTERVAL_S`.
"""

from __future__ import annotations

from cqs.engines.waiters import WaiterRegistry

POLL_INTERVAL_S = 0.5


class DueTimes:
    """For each queue with waiters, when its next hidden message becomes visible, or an earlier time."""

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
        """Replace the due time of a queue; None: it has no hidden message."""
        self._due.pop(queue_id, None)
        if due_ms is not None and queue_id in self._waiters:
            self._due[queue_id] = due_ms
            self._waiters.wake_at(queue_id, due_ms)
