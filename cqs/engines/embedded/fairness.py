"""Use of a fair queue's consumers: each tenant's messages in flight, and its recent processing time.

Processing time is time in flight, summed over messages, with exponential decay (`NOISY_RECENT_MS`). It identifies the
tenant that keeps consumers busy even if they are so quick that few messages are in flight.
"""

from __future__ import annotations

from math import exp

from cqs.engines.contract import NOISY_BUSY_MS_MIN, NOISY_IN_FLIGHT_MIN, NOISY_RECENT_MS, NOISY_SHARE

SWEEP_LEAST = 1_000


class _TenantUse:
    """The use of one tenant, or of all tenants together."""

    __slots__ = ("at_ms", "busy_ms", "in_flight")

    def __init__(self, at_ms: int) -> None:
        self.in_flight = 0
        self.busy_ms = 0.0
        self.at_ms = at_ms

    def advance(self, now_ms: int) -> None:
        passed_ms = now_ms - self.at_ms
        if passed_ms > 0:
            kept = exp(-passed_ms / NOISY_RECENT_MS)
            self.busy_ms = self.busy_ms * kept + self.in_flight * NOISY_RECENT_MS * (1.0 - kept)
            self.at_ms = now_ms


class TenantUsage:
    """The tenants of one queue. The caller reports each message that goes in flight or leaves it. Messages without a
    tenant ('') count in the total only."""

    __slots__ = ("_all", "_maybe_noisy", "_sweep_at", "_uses")

    def __init__(self) -> None:
        self._all = _TenantUse(0)
        self._uses: dict[str, _TenantUse] = {}
        self._maybe_noisy: set[str] = set()  # noisy at their last change; `noisy` checks them again
        self._sweep_at = SWEEP_LEAST

    def __len__(self) -> int:
        return len(self._uses)

    def change(self, tenant: str, n: int, now_ms: int) -> None:
        """`n` more messages (fewer, if negative) of a tenant are in flight."""
        everybody = self._all
        everybody.advance(now_ms)
        everybody.in_flight += n
        if not tenant:
            return
        use = self._uses.get(tenant)
        if use is None:
            use = self._uses[tenant] = _TenantUse(now_ms)
        use.advance(now_ms)
        use.in_flight += n
        if tenant not in self._maybe_noisy and self._is_noisy(use):
            self._maybe_noisy.add(tenant)
        if len(self._uses) > self._sweep_at:
            self._sweep(now_ms)

    def noisy(self, now_ms: int) -> dict[str, int]:
        """The noisy tenants with their messages in flight, fewest first."""
        if not self._maybe_noisy:
            return {}
        self._all.advance(now_ms)
        found: dict[str, int] = {}
        for tenant in tuple(self._maybe_noisy):
            use = self._uses[tenant]
            use.advance(now_ms)
            if self._is_noisy(use):
                found[tenant] = use.in_flight
            else:
                self._maybe_noisy.discard(tenant)
        return dict(sorted(found.items(), key=lambda each: each[1]))

    def _is_noisy(self, use: _TenantUse) -> bool:
        """At most nine tenants can exceed a tenth of the total."""
        everybody = self._all
        return (use.in_flight >= NOISY_IN_FLIGHT_MIN and use.in_flight > NOISY_SHARE * everybody.in_flight) or (
            use.busy_ms >= NOISY_BUSY_MS_MIN and use.busy_ms > NOISY_SHARE * everybody.busy_ms
        )

    def _sweep(self, now_ms: int) -> None:
        """Forget idle tenants. The next sweep is at twice as many tenants, so the cost per change stays small."""
        for tenant, use in tuple(self._uses.items()):
            use.advance(now_ms)
            if not use.in_flight and use.busy_ms < 1.0:
                del self._uses[tenant]
                self._maybe_noisy.discard(tenant)
        self._sweep_at = max(SWEEP_LEAST, 2 * len(self._uses))
