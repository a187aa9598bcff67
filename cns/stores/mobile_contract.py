"""The contract of the stores of mobile push and SMS.

The general terms are those of `cns.stores.contract`.
"""

from __future__ import annotations

from typing import Protocol

from cns.push.model import MobileEndpoint, PlatformApplication
from cns.sms.numbers import SandboxNumber
from cns_common.store_keys import Key, KeyOrEmpty


class PlatformStore(Protocol):
    """Platform applications, found by ARN, stored encrypted."""

    async def create(self, application: PlatformApplication) -> PlatformApplication:
        """Store the application, or find the one that has this ARN already. Return the one that is stored now."""
        ...

    async def get(self, arn: Key) -> PlatformApplication | None: ...

    async def replace(self, application: PlatformApplication, expected_version: int) -> bool:
        """False, without a change, if the record has another version or incarnation, or does not exist."""
        ...

    async def delete(self, arn: Key) -> bool:
        """Delete the application only: its endpoints are deleted by `MobileEndpointStore.sweep`."""
        ...

    async def page(self, account: Key, region: Key, after: KeyOrEmpty, n: int) -> list[PlatformApplication]:
        """Up to `n` applications with ARNs after the given one, sorted by ARN."""
        ...

    async def regions(self, account: Key) -> list[str]:
        """The regions in which the account has applications, sorted. May scan the store: for rare acts only."""
        ...


class MobileEndpointStore(Protocol):
    """Mobile endpoints, found by ARN, or by application and token.

    Those of a deleted application exist until they are swept: look up the application, too.
    """

    async def create(self, endpoint: MobileEndpoint) -> MobileEndpoint | None:
        """Store the endpoint, or find the one that the application has for this token.

        Return the one that is stored now. None if that incarnation of the application does not exist.
        """
        ...

    async def get(self, arn: Key) -> MobileEndpoint | None: ...

    async def token_taken(self, endpoint: MobileEndpoint) -> bool:
        """Whether another endpoint of the application has its token."""
        ...

    async def replace(self, endpoint: MobileEndpoint, expected_version: int) -> bool:
        """False, without a change, if the record has another version or does not exist, or if another endpoint of the
        application has the token."""
        ...

    async def delete(self, arn: Key) -> bool: ...

    async def page(self, application_id: Key, after: KeyOrEmpty, n: int) -> list[MobileEndpoint]:
        """Up to `n` endpoints with ids after the given one ('' for the first page), sorted by id."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Delete up to `budget` endpoints of deleted applications.

        Return how many were deleted: fewer than the budget if no more are due.
        """
        ...


class SmsStore(Protocol):
    """An account's SMS attributes in a region, numbers that opted out of its SMS, and the numbers of its sandbox."""

    async def attributes(self, account: Key, region: Key) -> dict[str, str]: ...

    async def set_attributes(self, account: Key, region: Key, changes: dict[str, str]) -> None:
        """An empty value removes an attribute."""
        ...

    async def opted_out(self, account: Key, number: Key) -> bool: ...

    async def opt_out(self, account: Key, number: Key) -> None: ...

    async def opt_in(self, account: Key, number: Key) -> None: ...

    async def page_of_opted_out(self, account: Key, after: KeyOrEmpty, n: int) -> list[str]:
        """Up to `n` numbers after the given one ('' for the first page), in a stable order."""
        ...

    async def sandbox_number(self, account: Key, region: Key, number: Key) -> SandboxNumber | None: ...

    async def put_sandbox_number(self, number: SandboxNumber, expected_version: int) -> bool:
        """False, without a change, if the stored record has another version; 0 stands for no record."""
        ...

    async def remove_sandbox_number(self, account: Key, region: Key, number: Key) -> bool: ...

    async def page_of_sandbox(self, account: Key, region: Key, after: KeyOrEmpty, n: int) -> list[SandboxNumber]:
        """Up to `n` records with numbers after the given one, sorted by number."""
        ...
