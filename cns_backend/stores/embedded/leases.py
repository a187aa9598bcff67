"""Leases in the memory of the store host. Leased work consists of calls to the host, so both end with it."""

from __future__ import annotations

from dataclasses import dataclass

from cns_backend.stores.contract import LeaseStore


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    holder: str
    until_ms: int


class EmbeddedLeaseStore(LeaseStore):
    def __init__(self) -> None:
        self._leases: dict[tuple[str, str], _Lease] = {}

    async def take(self, task: str, part: str, holder: str, life_ms: int, now_ms: int) -> bool:
        held = self._leases.get((task, part))
        if held is not None and held.holder != holder and now_ms < held.until_ms:
            return False
        self._leases[(task, part)] = _Lease(holder=holder, until_ms=now_ms + life_ms)
        return True

    async def give_back(self, task: str, part: str, holder: str) -> None:
        held = self._leases.get((task, part))
        if held is not None and held.holder == holder:
            del self._leases[(task, part)]
