"""A model of a queue: a list of messages that is scanned from the front for each operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp

from cqs.engines.contract import (
    ATTEMPT_WINDOW_MS,
    DEDUP_WINDOW_MS,
    NOISY_BUSY_MS_MIN,
    NOISY_IN_FLIGHT_MIN,
    NOISY_RECENT_MS,
    SPENT_HIDE_MS,
    Message,
    Outcome,
    ReceiveResult,
)

LEASE_ROUNDED_MS = 100
"""An engine may count a lease that ends by its timeout as in flight for this much longer."""


@dataclass(slots=True)
class Lease:
    """The time for which a message of a tenant is in flight."""

    tenant: str
    begun_ms: int
    until_ms: int

    def in_flight(self, now_ms: int) -> bool:
        return now_ms < self.until_ms + LEASE_ROUNDED_MS

    def busy_ms(self, now_ms: int) -> float:
        """The most that it may count as recent processing time."""
        ended_ms = min(self.until_ms + LEASE_ROUNDED_MS, now_ms)
        kept, decayed = (exp((at_ms - now_ms) / NOISY_RECENT_MS) for at_ms in (ended_ms, self.begun_ms))
        return NOISY_RECENT_MS * (kept - decayed)


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
    lease: Lease | None = None
    """The newest one."""

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
    fair: bool = False
    messages: dict[str, ModelMessage] = field(default_factory=dict)
    owners: dict[bytes, str] = field(default_factory=dict)
    """The message id of each handle that was ever given."""
    dedup: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    """All of messages with a tenant."""
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
        else:
            self._check_oldest({message.id for message in given}, [kept for (kept,) in runs], now_ms)
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

    def _check_oldest(self, given: set[str], visible: list[ModelMessage], now_ms: int) -> None:
        """The oldest go first; only those of each tenant if others may wait for quiet tenants."""
        by_tenant = self._may_be_noisy(now_ms)
        left_ms: dict[str, int] = {}
        for kept in visible:  # oldest first
            tenant = kept.group if by_tenant else ""
            if kept.id not in given:
                left_ms.setdefault(tenant, kept.visible_at_ms)
            else:
                assert kept.visible_at_ms <= left_ms.get(tenant, now_ms), "the oldest visible go first"

    def _may_be_noisy(self, now_ms: int) -> bool:
        """Whether a tenant has what makes it noisy, but for its share of all."""
        for tenant in {lease.tenant for lease in self.leases} if self.fair else ():
            own = [lease for lease in self.leases if lease.tenant == tenant]
            in_flight = sum(lease.in_flight(now_ms) for lease in own)
            if in_flight >= NOISY_IN_FLIGHT_MIN or sum(lease.busy_ms(now_ms) for lease in own) >= NOISY_BUSY_MS_MIN:
                return True
        return False

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
            self._hand_out(kept, message, visible_at_ms, now_ms)
        for message in received.spent:
            self._hand_out(self.messages[message.id], message, now_ms + SPENT_HIDE_MS, now_ms)

    def _hand_out(self, kept: ModelMessage, message: Message, visible_at_ms: int, now_ms: int) -> None:
        assert message.handle not in self.owners, "a handle names one delivery"
        self.owners[message.handle] = kept.id
        kept.handle = message.handle
        self._hide(kept, visible_at_ms, now_ms)
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

    def _hide(self, kept: ModelMessage, visible_at_ms: int, now_ms: int) -> None:
        self._end_lease(kept, now_ms)
        kept.visible_at_ms = visible_at_ms
        if kept.group and visible_at_ms > now_ms:
            kept.lease = Lease(kept.group, now_ms, visible_at_ms)
            self.leases.append(kept.lease)

    def _end_lease(self, kept: ModelMessage, now_ms: int) -> None:
        if kept.lease is not None:
            kept.lease.until_ms = min(kept.lease.until_ms, now_ms)

    # -- settling -----------------------------------------------------------------------------------------------------

    def outcome(self, handle: bytes, now_ms: int, *, older_handles: bool = False) -> Outcome:
        """The expected outcome of a delete or visibility change. `older_handles` is that of a QueueRef."""
        kept = self.messages.get(self.owners.get(handle, ""))
        if kept is None:
            return Outcome.GONE
        if kept.handle != handle and (self.fifo or not older_handles):
            return Outcome.STALE
        return Outcome.EXPIRED if self.fifo and not kept.hidden(now_ms) else Outcome.DONE

    def delete(self, handle: bytes, now_ms: int) -> None:
        self._end_lease(self.messages.pop(self.owners[handle]), now_ms)

    def change(self, handle: bytes, visible_at_ms: int | None, body: bytes | None, now_ms: int) -> None:
        kept = self.messages[self.owners[handle]]
        if visible_at_ms is not None:
            self._hide(kept, visible_at_ms, now_ms)
        if body is not None:
            kept.body = body
        for attempt in self.attempts.values():
            if attempt.handles.get(kept.id) == handle:
                attempt.until_ms = 0

    def purge(self) -> None:
        self.messages.clear()
        self.dedup.clear()
        self.attempts.clear()
        self.leases.clear()

    # -- reading ------------------------------------------------------------------------------------------------------

    def counts(self, now_ms: int) -> tuple[int, int, int]:
        """(visible, in flight, delayed)"""
        hidden = [kept for kept in self.messages.values() if kept.hidden(now_ms)]
        in_flight = sum(kept.deliveries > 0 for kept in hidden)
        return len(self.messages) - len(hidden), in_flight, len(hidden) - in_flight

    def ids(self) -> Sequence[str]:
        return sorted(self.messages)
