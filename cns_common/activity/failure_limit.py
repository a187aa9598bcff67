"""Limits how many acts that failed, or changed nothing, are recorded: a burst of each source, then a slow rate.

A caller can cause such acts at will. It must not fill the disk, nor use up what is recorded of other sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cns_common.activity.record import Actor
from cns_common.bounded_cache import BoundedCache
from cns_common.token_bucket import Budget, TokenBucket

ACCOUNT = Budget(burst=200, interval_s=10)
"""The budget of one account, of one portal link, or of all operators: at most 8,840 acts a day."""
FACE = Budget(burst=200, interval_s=10)
"""The budget of all callers without credentials at one interface (`aws`, `rest`, `pages`, `portal`)."""
ADDRESS = Budget(burst=20, interval_s=60)
"""The share of it that callers from one IP address may use."""
SOURCES_MAX = 10_000
"""The most accounts and portal links with budgets of their own; all others share one."""
ADDRESSES_MAX = 10_000
"""The most addresses whose budgets are kept; callers from other addresses are limited by the interface's budget
only."""
SUMMARY_S = 3_600
"""Acts that were left out are summed up after that time at the latest, if another act is recorded then."""


class LeftOut(NamedTuple):
    """How many acts of a source were not recorded since its last record. `last` caused the last of them."""

    last: Actor
    acts: int


class _Source:
    def __init__(self, bucket: TokenBucket, actor: Actor) -> None:
        self.bucket = bucket
        self.last = actor
        self.left_out = 0


class FailureLimit:
    """For one process. `now_s` is a monotonic clock, in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._sources: dict[str, _Source] = {}
        self._addresses: BoundedCache[str, TokenBucket] = BoundedCache(ADDRESSES_MAX)
        self._summary_at_s = now_s() + SUMMARY_S

    def admit(self, actor: Actor) -> int | None:
        """Count an act of the source. Returns how many before it were left out since the last recorded one, or None if
        this one is to be left out, too."""
        now_s = self._now_s()
        portal = actor.via == "portal"  # a portal visitor must not use up the account's budget
        name = actor.principal if portal or not actor.account else actor.account
        source = self._source(name or f"anonymous {actor.via}", ACCOUNT if name else FACE, actor, now_s)
        is_admitted = bool(name) or self._admits_address(actor, now_s)
        if not (is_admitted and source.bucket.take(now_s, 1).tokens):
            source.last = actor
            source.left_out += 1
            return None
        left_out, source.left_out = source.left_out, 0
        return left_out

    def due(self) -> list[LeftOut]:
        """The acts left out since the last summary, once in `SUMMARY_S`; later calls do not return them again."""
        now_s = self._now_s()
        if now_s < self._summary_at_s:
            return []
        self._summary_at_s = now_s + SUMMARY_S
        return self.take_all()

    def take_all(self) -> list[LeftOut]:
        """The acts left out since the last summary; later calls do not return them again."""
        found = [source for source in self._sources.values() if source.left_out]
        left_out = [LeftOut(source.last, source.left_out) for source in found]
        for source in found:
            source.left_out = 0
        return left_out

    def _source(self, name: str, budget: Budget, actor: Actor, now_s: float) -> _Source:
        if budget is ACCOUNT and name not in self._sources and len(self._sources) >= SOURCES_MAX:
            name = "others"
        source = self._sources.get(name)
        if source is None:
            source = self._sources[name] = _Source(budget.bucket(now_s), actor)
        return source

    def _admits_address(self, actor: Actor, now_s: float) -> bool:
        name = f"{actor.via} {actor.address}"
        bucket = self._addresses.get(name)
        if bucket is None:
            bucket = ADDRESS.bucket(now_s)
            self._addresses.put(name, bucket)
        return bool(bucket.take(now_s, 1).tokens)
