"""The lanes whose heads are hidden until their endpoint has room, or their subscription is resumed, so that they can be
shown as soon as it is."""

from __future__ import annotations

from collections import deque

from workers.delivery.traffic.endpoint_state import BLOCKED_S


class HiddenLanes:
    """A head is forgotten when it becomes visible by itself, so endpoints that are gone leave nothing here."""

    def __init__(self, hidden_s: float = BLOCKED_S) -> None:
        """A head becomes visible by itself after `hidden_s`."""
        self._hidden_s = hidden_s
        self._handles: dict[str, dict[str, str]] = {}  # by the key that they wait for, and lane
        self._expiries: deque[tuple[float, str, str, str]] = deque()  # in order of time

    def __len__(self) -> int:
        return sum(map(len, self._handles.values()))

    def add(self, key: str, lane: str, handle: str, now_s: float) -> None:
        while self._expiries and self._expiries[0][0] <= now_s:
            self._forget(*self._expiries.popleft()[1:])
        self._handles.setdefault(key, {})[lane] = handle
        self._expiries.append((now_s + self._hidden_s, key, lane, handle))

    def take(self, key: str) -> list[str]:
        """Remove the heads that wait for this key, and return their handles."""
        return list(self._handles.pop(key, {}).values())

    def _forget(self, key: str, lane: str, handle: str) -> None:
        lanes = self._handles.get(key, {})
        if lanes.get(lane) == handle:  # else it was hidden anew since
            del lanes[lane]
            if not lanes:
                del self._handles[key]
