"""A model of a fair queue in Redis: which messages are there, who uses the consumers, and what a lease takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import exp

from cqs.engines.cluster.cache_contract import MessageLease
from cqs.engines.contract import NOISY_BUSY_MS_MIN, NOISY_IN_FLIGHT_MIN, NOISY_RECENT_MS, NOISY_SHARE

ALL = ""


@dataclass(slots=True)
class ModelMessage:
    tenant: str
    due_ms: int
    delivered: bool


@dataclass(slots=True)
class Use:
    n: int = 0
    at_ms: int = 0
    busy_ms: float = 0.0

    def advance(self, now_ms: int) -> None:
        if now_ms > self.at_ms:
            kept = exp((self.at_ms - now_ms) / NOISY_RECENT_MS)
            self.busy_ms = self.busy_ms * kept + self.n * NOISY_RECENT_MS * (1 - kept)
            self.at_ms = now_ms


@dataclass(slots=True)
class FairModel:
    """Messages by member. Nothing is counted before `become_fair`."""

    messages: dict[str, ModelMessage] = field(default_factory=dict)
    leaving: dict[str, str] = field(default_factory=dict)
    """The tenants of messages that were removed for a delete which has not ended."""
    fair: bool = False
    swept_ms: int = 0
    all_swept: bool = True
    """Whether the last sweep counted all ended leases."""
    uses: dict[str, Use] = field(default_factory=dict)
    maybe_noisy: set[str] = field(default_factory=set)
    _changed: set[str] = field(default_factory=set)

    def become_fair(self, now_ms: int) -> None:
        if not self.fair:
            self.fair, self.swept_ms = True, now_ms
            self.uses[ALL] = Use(sum(self._counts(each) for each in self.messages.values()), now_ms)

    # -- changes ------------------------------------------------------------------------------------------------------

    def put(self, member: str, due_ms: int, delivered: bool, now_ms: int, tenant: str = "") -> None:
        """Add the message, or change it."""
        before = self.messages.get(member)
        tenant = tenant or (before.tenant if before else self.leaving.get(member, ""))
        self._move(before, ModelMessage(tenant, due_ms, delivered), now_ms)
        self.messages[member] = ModelMessage(tenant, due_ms, delivered)
        self.leaving.pop(member, None)

    def name_tenant(self, member: str, tenant: str, now_ms: int) -> None:
        message = self.messages[member]
        self.put(member, message.due_ms, message.delivered, now_ms, tenant)

    def remove(self, member: str, now_ms: int) -> None:
        message = self.messages.pop(member, None)
        if message is not None:
            self._move(message, None, now_ms)

    def _move(self, before: ModelMessage | None, after: ModelMessage | None, now_ms: int) -> None:
        left = before is not None and self._counts(before)
        enters = after is not None and self._counts(after)
        if left and enters and before.tenant == after.tenant:  # type: ignore[union-attr]  # both are there
            return
        if left or enters:
            assert self.swept_ms >= now_ms or not self.all_swept, "ended leases are counted first"
        if before is not None and left:
            self._count(before.tenant, -1, now_ms)
        if after is not None and enters:
            self._count(after.tenant, 1, now_ms)

    def _counts(self, message: ModelMessage) -> bool:
        return self.fair and message.delivered and message.due_ms > self.swept_ms

    def _count(self, tenant: str, n: int, now_ms: int) -> None:
        for name in {ALL, tenant}:
            use = self.uses.setdefault(name, Use())
            use.advance(now_ms)
            use.n += n
        self._changed.add(tenant)

    def end_call(self) -> None:
        """Note who became noisy."""
        self.maybe_noisy |= {one for one in self._changed if one != ALL and self._is_noisy(one)}
        self._changed.clear()

    # -- leases -------------------------------------------------------------------------------------------------------

    def sweep(self, swept_ms: int) -> int:
        """Count the leases that ended until then. Returns their number."""
        ended = [one for one in self.messages.values() if self._counts(one) and one.due_ms <= swept_ms]
        for one in sorted(ended, key=lambda one: one.due_ms):
            self._count(one.tenant, -1, one.due_ms)
        self.swept_ms = swept_ms
        return len(ended)

    def visible(self, now_ms: int) -> list[str]:
        """Oldest first."""
        seen = [(one.due_ms, member) for member, one in self.messages.items() if one.due_ms <= now_ms]
        return [member for _, member in sorted(seen)]

    def noisy(self, now_ms: int) -> dict[str, int]:
        """The noisy tenants with their messages in flight."""
        self.maybe_noisy = {one for one in self.maybe_noisy if self._is_noisy(one, now_ms)}
        return {one: self.uses[one].n for one in self.maybe_noisy}

    def check_order(self, leased: Sequence[str], want: int, now_ms: int) -> None:
        """Quiet tenants' oldest messages, then those of one noisy tenant after the other, fewest in flight first."""
        noisy, visible = self.noisy(now_ms), self.visible(now_ms)
        if not noisy:
            assert list(leased) == visible[:want]
            return
        quiet = [one for one in visible if self.messages[one].tenant not in noisy]
        first, rest = leased[: len(quiet)], leased[len(quiet) :]
        assert set(first) <= set(quiet)
        assert self._dues(first) == self._dues(quiet)[:want], "of one ms the tenants may be in any order"
        turns = list(dict.fromkeys([self.messages[one].tenant for one in rest]))
        assert sorted(turns, key=noisy.__getitem__) == turns
        left = sorted(noisy, key=lambda one: (noisy[one], turns.index(one) if one in turns else len(turns)))
        loud = [one for turn in left for one in visible if self.messages[one].tenant == turn]
        assert list(rest) == loud[: max(want - len(quiet), 0)]

    def _dues(self, members: Iterable[str]) -> list[int]:
        return [self.messages[one].due_ms for one in members]

    def lease(self, leases: Iterable[MessageLease], due_ms: int, spent_due_ms: int, now_ms: int) -> None:
        for lease in leases:
            self.put(lease.key.location.member, spent_due_ms if lease.spent else due_ms, True, now_ms)
        self.end_call()

    def _is_noisy(self, tenant: str, now_ms: int = 0) -> bool:
        use, everybody = replace(self.uses[tenant]), replace(self.uses[ALL])
        use.advance(now_ms)
        everybody.advance(now_ms)
        return (use.n >= NOISY_IN_FLIGHT_MIN and use.n > NOISY_SHARE * everybody.n) or (
            use.busy_ms >= NOISY_BUSY_MS_MIN and use.busy_ms > NOISY_SHARE * everybody.busy_ms
        )
