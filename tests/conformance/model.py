"""A model of a queue: a list of messages that is scanned from the front for each operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cqs.engines.contract import ATTEMPT_WINDOW_MS, DEDUP_WINDOW_MS, SPENT_HIDE_MS, Message, Outcome, ReceiveResult


@dataclass(slots=True, kw_only=True)
class ModelMessage:
    """One message of the model."""

    id: str
    sequence: int
    body: bytes
    group: str
    born_at_ms: int
    visible_at_ms: int
    deliveries: int = 0
    first_received_ms: int = 0
    handle: bytes = b""
    """The handle of the newest delivery."""

    def hidden(self, now_ms: int) -> bool:
        return self.visible_at_ms > now_ms


@dataclass(slots=True)
class Attempt:
    until_ms: int
    handles: dict[str, bytes]


@dataclass(slots=True)
class Model:
    """A queue. The `check_*` methods compare an engine's results with what the model allows, and update the model."""

    fifo: bool
    max_receives: int = 0
    messages: dict[str, ModelMessage] = field(default_factory=dict)
    owners: dict[bytes, str] = field(default_factory=dict)
    """The message id of each handle that was ever given."""
    dedup: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    last_sequence: int = 0

    # -- sending ------------------------------------------------------------------------------------------------------

    def duplicate_of(self, key: str, now_ms: int) -> tuple[str, int] | None:
        """(id, sequence) of the original."""
        if not self.fifo or not key or key not in self.dedup:
            return None
        until_ms, original, sequence = self.dedup[key]
        return (original, sequence) if now_ms < until_ms else None

    def add(self, kept: ModelMessage, key: str, now_ms: int) -> None:
        assert kept.sequence > self.last_sequence, "sequences rise"
        self.last_sequence = kept.sequence
        self.messages[kept.id] = kept
        if self.fifo and key:
            self.dedup[key] = (now_ms + DEDUP_WINDOW_MS, kept.id, kept.sequence)

    # -- receiving ----------------------------------------------------------------------------------------------------

    def is_spent(self, kept: ModelMessage) -> bool:
        return bool(self.max_receives) and kept.deliveries >= self.max_receives

    def available(self, now_ms: int) -> list[list[ModelMessage]]:
        """The messages that may be received now, as runs: each run is received from its front."""
        if not self.fifo:
            visible = [kept for kept in self.messages.values() if not kept.hidden(now_ms)]
            return [[kept] for kept in sorted(visible, key=lambda kept: kept.visible_at_ms)]
        return [run for run in (self._run(group, now_ms) for group in self.groups()) if run]

    def groups(self) -> list[list[ModelMessage]]:
        """The messages of each group, in order."""
        groups: dict[str, list[ModelMessage]] = {}
        for kept in sorted(self.messages.values(), key=lambda kept: kept.sequence):
            groups.setdefault(kept.group, []).append(kept)
        return list(groups.values())

    def _run(self, group: list[ModelMessage], now_ms: int) -> list[ModelMessage]:
        """A group's messages before the first hidden one, and up to the first spent one."""
        run: list[ModelMessage] = []
        for kept in group:
            if kept.hidden(now_ms):
                break
            run.append(kept)
            if self.is_spent(kept):
                break
        return run

    def repeats(self, attempt_id: str, visible_at_ms: int, now_ms: int) -> Attempt | None:
        """The attempt that a receive repeats."""
        attempt = self.attempts.get(attempt_id) if attempt_id and visible_at_ms > now_ms else None
        if attempt is None or now_ms >= attempt.until_ms:
            return None
        same = all(
            one in self.messages and self.messages[one].handle == handle for one, handle in attempt.handles.items()
        )
        return attempt if same else None

    def check_received(
        self, received: ReceiveResult, want: int, visible_at_ms: int, now_ms: int, attempt_id: str
    ) -> None:
        attempt = self.repeats(attempt_id, visible_at_ms, now_ms)
        if attempt is not None:
            assert {message.id: message.handle for message in received.messages} == attempt.handles
            for message in received.messages:
                self.messages[message.id].visible_at_ms = visible_at_ms
            return
        given = [*received.messages, *received.spent]
        runs = self.available(now_ms)
        assert len(given) == min(want, sum(map(len, runs)))
        assert {message.id for message in received.spent} == {
            message.id for message in given if self.is_spent(self.messages[message.id])
        }
        if self.fifo:
            self._check_groups(given, runs)
        elif given:
            last_ms = max(self.messages[message.id].visible_at_ms for message in given)
            left = [run[0].visible_at_ms for run in runs if run[0].id not in {message.id for message in given}]
            assert all(visible_ms >= last_ms for visible_ms in left), "the oldest visible go first"
        self._check_due(received, now_ms, given)
        self._follow(received, visible_at_ms, now_ms)
        if attempt_id and received.messages and visible_at_ms > now_ms:
            self.remember(attempt_id, received.messages, now_ms)

    def remember(self, attempt_id: str, given: Sequence[Message], now_ms: int) -> None:
        handles = {message.id: message.handle for message in given}
        self.attempts[attempt_id] = Attempt(now_ms + ATTEMPT_WINDOW_MS, handles)

    def _check_groups(self, given: list[Message], runs: list[list[ModelMessage]]) -> None:
        order = {kept.id: (number, place) for number, run in enumerate(runs) for place, kept in enumerate(run)}
        places: dict[int, list[int]] = {}
        for message in given:
            number, place = order[message.id]
            places.setdefault(number, []).append(place)
        for of_group in places.values():
            assert of_group == list(range(len(of_group))), "a group is received from its front, in order, without gaps"

    def _check_due(self, received: ReceiveResult, now_ms: int, given: list[Message]) -> None:
        """The promised due time may be too early, never too late."""
        if given or received.next_due_ms is None:
            return
        hidden = [kept.visible_at_ms for kept in self.messages.values() if kept.hidden(now_ms)]
        if not self.fifo and hidden:
            assert received.next_due_ms <= min(hidden)

    def _follow(self, received: ReceiveResult, visible_at_ms: int, now_ms: int) -> None:
        for message in received.messages:
            kept = self.messages[message.id]
            kept.deliveries += 1
            kept.first_received_ms = kept.first_received_ms or now_ms
            self._hand_out(kept, message, visible_at_ms)
        for message in received.spent:
            self._hand_out(self.messages[message.id], message, now_ms + SPENT_HIDE_MS)

    def _hand_out(self, kept: ModelMessage, message: Message, visible_at_ms: int) -> None:
        assert message.handle not in self.owners, "a handle names one delivery"
        self.owners[message.handle] = kept.id
        kept.handle = message.handle
        kept.visible_at_ms = visible_at_ms
        assert message == Message(
            kept.id,
            message.handle,
            kept.body,
            kept.sequence,
            kept.deliveries,
            kept.first_received_ms,
            kept.born_at_ms,
            kept.group,
        )

    # -- settling -----------------------------------------------------------------------------------------------------

    def outcome(self, handle: bytes, now_ms: int, *, older_handles: bool = False) -> Outcome:
        """The expected outcome of a delete or visibility change. `older_handles` is that of a QueueRef."""
        kept = self.messages.get(self.owners.get(handle, ""))
        if kept is None:
            return Outcome.GONE
        if kept.handle != handle and (self.fifo or not older_handles):
            return Outcome.STALE
        return Outcome.EXPIRED if self.fifo and not kept.hidden(now_ms) else Outcome.DONE

    def delete(self, handle: bytes) -> None:
        del self.messages[self.owners[handle]]

    def change(self, handle: bytes, visible_at_ms: int | None, body: bytes | None) -> None:
        kept = self.messages[self.owners[handle]]
        if visible_at_ms is not None:
            kept.visible_at_ms = visible_at_ms
        if body is not None:
            kept.body = body
        for attempt in self.attempts.values():
            if attempt.handles.get(kept.id) == handle:
                attempt.until_ms = 0

    def purge(self) -> None:
        self.messages.clear()
        self.dedup.clear()
        self.attempts.clear()

    # -- reading ------------------------------------------------------------------------------------------------------

    def counts(self, now_ms: int) -> tuple[int, int, int]:
        """(visible, in flight, delayed)"""
        hidden = [kept for kept in self.messages.values() if kept.hidden(now_ms)]
        in_flight = sum(kept.deliveries > 0 for kept in hidden)
        return len(self.messages) - len(hidden), in_flight, len(hidden) - in_flight

    def ids(self) -> Sequence[str]:
        return sorted(self.messages)
