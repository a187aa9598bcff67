"""A cache of limited size that evicts the entries put first. Threads may share it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    def __init__(self, entries_max: int) -> None:
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._entries_max = entries_max
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        return self._entries.get(key)

    def put(self, key: Key, value: Value) -> None:
        with self._lock:
            self._entries[key] = value
            if len(self._entries) > self._entries_max:
                self._entries.popitem(last=False)

    def forget(self, key: Key) -> None:
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
