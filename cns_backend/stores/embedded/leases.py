"""Leases: who may do a piece of recorded work, so that any worker can try and one at a time does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class LeaseStore(Protocol):
    """A lease is on one task over one range of what there is to do, and runs out by itself."""

    async def take(self, task: str, part: str, holder: str, life_ms: int, now_ms: int) -> bool:
        """Hold the lease for so long from now, or for longer; False while another holds it."""
        ...

    async def give_back(self, task: str, part: str, holder: str) -> None:
        """Let another have it before it runs out; without effect unless `holder` holds it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    holder: str
    until_ms: int


class EmbeddedLeaseStore:
    """See `LeaseStore`; lives in the store host, in memory: leased work is calls to the host, and ends with it."""

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
