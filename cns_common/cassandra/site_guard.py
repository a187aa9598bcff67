"""The guard of a Cassandra session: it asks before each statement whether the process's site may use the store."""

from __future__ import annotations

from typing import Protocol


class SiteGuard(Protocol):
    activation: int
    """The number of the site's activation by which the process acts; 0 where there is only one site."""

    @property
    def writes_everywhere(self) -> bool:
        """Whether a write is acknowledged by a quorum of each site, and not only of this one."""
        ...

    @property
    def leaving(self) -> bool:
        """Whether the process ends its work because another site is to be active."""
        ...

    def check(self) -> None:
        """Raise StoreUnavailable unless this process may use the store now."""
        ...

    async def missed(self) -> None:
        """Record that the other site may lack a write that this one has, whose outcome is unknown. If that fails,
        `check` refuses every statement until it is recorded."""
        ...


class OneSite(SiteGuard):
    """The guard of a process without other sites."""

    activation = 0
    writes_everywhere = False
    leaving = False

    def check(self) -> None:
        """Nothing to check."""

    async def missed(self) -> None:
        """There is no other site."""
