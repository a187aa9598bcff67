"""The five-minute memory of a FIFO queue: deduplication keys and receive attempts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from cqs.engines.contract import ATTEMPT_WINDOW_MS, DEDUP_WINDOW_MS


class DedupRecord(msgspec.Struct, frozen=True, array_like=True):
    until_ms: int
    key: str
    id: str
    location: str  # of the body: a command that was appended twice is not a duplicate of itself
    seq: int


class ReceiveAttempt(msgspec.Struct, frozen=True, array_like=True):
    until_ms: int
    id: str
    lease: int
    seqs: tuple[int, ...]

    @property
    def made_ms(self) -> int:
        return self.until_ms - ATTEMPT_WINDOW_MS


class DedupWindow:
    """The first message of each deduplication key. Records expire in the order of the sends, since the queue's time
    only rises, except by `end_by`."""

    def __init__(self, known: Iterable[DedupRecord] = ()) -> None:
        self._ends: deque[DedupRecord] = deque()
        self._by_key: dict[str, DedupRecord] = {}
        self.restore(known)

    def restore(self, known: Iterable[DedupRecord]) -> None:
        """Add stored records that are later than those of this window."""
        for original in known:
            self._ends.append(original)
            self._by_key[original.key] = original

    def find(self, key: str, now_ms: int) -> DedupRecord | None:
        original = self._by_key.get(key)
        return original if original is not None and original.until_ms > now_ms else None

    def add(self, key: str, message_id: str, location: str, seq: int, now_ms: int) -> None:
        original = self._by_key[key] = DedupRecord(now_ms + DEDUP_WINDOW_MS, key, message_id, location, seq)
        self._ends.append(original)
        while self._ends[0].until_ms <= now_ms:
            ended = self._ends.popleft()
            if self._by_key.get(ended.key) is ended:
                del self._by_key[ended.key]

    def end_by(self, now_ms: int) -> DedupWindow:
        """The window after the queue's time was set back to `now_ms`: no record lasts longer than one that is added
        now."""
        last_ms = now_ms + DEDUP_WINDOW_MS
        return DedupWindow([msgspec.structs.replace(one, until_ms=min(one.until_ms, last_ms)) for one in self._ends])

    def all(self) -> list[DedupRecord]:
        return list(self._ends)

    def known(self, now_ms: int) -> list[DedupRecord]:
        """The records that `find` finds."""
        return [one for one in self._ends if self.find(one.key, now_ms) is one]


class ReceiveAttempts:
    """Receives with an attempt id, by that id and by their lease."""

    def __init__(self, known: Iterable[ReceiveAttempt] = ()) -> None:
        self._ends: deque[ReceiveAttempt] = deque()
        self._by_id: dict[str, ReceiveAttempt] = {}
        self._by_lease: dict[int, ReceiveAttempt] = {}
        self.restore(known)

    def restore(self, known: Iterable[ReceiveAttempt]) -> None:
        """See `DedupWindow.restore`."""
        for attempt in known:
            self._ends.append(attempt)
            self._by_id[attempt.id] = self._by_lease[attempt.lease] = attempt

    def find(self, attempt_id: str, now_ms: int) -> ReceiveAttempt | None:
        attempt = self._by_id.get(attempt_id)
        return attempt if attempt is not None and attempt.until_ms > now_ms else None

    def add(self, attempt_id: str, lease: int, seqs: tuple[int, ...], now_ms: int) -> None:
        attempt = ReceiveAttempt(now_ms + ATTEMPT_WINDOW_MS, attempt_id, lease, seqs)
        self._by_id[attempt_id] = self._by_lease[lease] = attempt
        self._ends.append(attempt)
        while self._ends[0].until_ms <= now_ms:
            self._forget(self._ends.popleft())

    def forget_lease(self, lease: int) -> None:
        attempt = self._by_lease.get(lease)
        if attempt is not None:
            self._forget(attempt)

    def _forget(self, attempt: ReceiveAttempt) -> None:
        if self._by_id.get(attempt.id) is attempt:
            del self._by_id[attempt.id]
        if self._by_lease.get(attempt.lease) is attempt:
            del self._by_lease[attempt.lease]

    def end_by(self, now_ms: int) -> ReceiveAttempts:
        """See `DedupWindow.end_by`."""
        last_ms = now_ms + ATTEMPT_WINDOW_MS
        return ReceiveAttempts(
            [msgspec.structs.replace(one, until_ms=min(one.until_ms, last_ms)) for one in self.all()]
        )

    def all(self) -> list[ReceiveAttempt]:
        return [attempt for attempt in self._ends if self._by_lease.get(attempt.lease) is attempt]
