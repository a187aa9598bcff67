"""Which lanes' heads are hidden until an endpoint has room: so that they can be shown as soon as it has."""

from __future__ import annotations

from collections import deque

from workers.delivery.traffic.endpoint_state import BLOCKED_S


class LaneHeads:
    """Forgets a head when it comes by itself: endpoints that are gone leave nothing here."""

    def __init__(self) -> None:
        self._handles: dict[str, dict[str, str]] = {}  # by endpoint and lane: a throttled subscription has its own
        self._ends: deque[tuple[float, str, str, str]] = deque()  # when they come at the latest, in that order

    def __len__(self) -> int:
        return sum(map(len, self._handles.values()))

    def add(self, key: str, lane: str, handle: str, now_s: float) -> None:
        while self._ends and self._ends[0][0] <= now_s:
            self._forget(*self._ends.popleft()[1:])
        self._handles.setdefault(key, {})[lane] = handle
        self._ends.append((now_s + BLOCKED_S, key, lane, handle))

    def take(self, key: str) -> list[str]:
        """The handles of those that wait for an endpoint."""
        return list(self._handles.pop(key, {}).values())

    def _forget(self, key: str, lane: str, handle: str) -> None:
        lanes = self._handles.get(key, {})
        if lanes.get(lane) == handle:  # else it was hidden anew since
            del lanes[lane]
            if not lanes:
                del self._handles[key]
