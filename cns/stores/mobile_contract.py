"""What the stores of mobile push and SMS promise: applications, endpoints, and what an account says of phone numbers.

As in `cns.stores.contract`, every write is durable when it returns, and no call takes longer for what else is stored.
"""

from __future__ import annotations

from typing import Protocol

from cns.push.model import MobileEndpoint, PlatformApplication
from cns.sms.numbers import SandboxNumber


class PlatformStore(Protocol):
    """Applications, found by ARN. Their secrets are sealed at rest."""

    async def create(self, application: PlatformApplication) -> PlatformApplication:
        """The application that has this ARN from now on: the given one, or one that was there before."""
        ...

    async def get(self, arn: str) -> PlatformApplication | None: ...

    async def replace(self, application: PlatformApplication, expected_version: int) -> bool:
        """False, and nothing is done, when the record is of another version or incarnation, or gone."""
        ...

    async def delete(self, arn: str) -> bool:
        """At once, whatever the number of endpoints: those are left to `MobileEndpointStore.sweep`."""
        ...

    async def page(self, account: str, region: str, after: str, n: int) -> list[PlatformApplication]:
        """Up to `n`, in the order of their ARNs, after the given one."""
        ...


class MobileEndpointStore(Protocol):
    """Endpoints, found by ARN, or by application and token. Those of a deleted application are there until they are
    swept: ask for the application."""

    async def create(self, endpoint: MobileEndpoint) -> MobileEndpoint | None:
        """The one that the application has for this token from now on: the given one, or one that was there before.
        None when that incarnation of the application is gone."""
        ...

    async def get(self, arn: str) -> MobileEndpoint | None: ...

    async def token_taken(self, endpoint: MobileEndpoint) -> bool:
        """Whether another endpoint of the application has its token."""
        ...

    async def replace(self, endpoint: MobileEndpoint, expected_version: int) -> bool:
        """False, and nothing is done, when the record is of another version or gone, or the token another's."""
        ...

    async def delete(self, arn: str) -> bool: ...

    async def page(self, application_id: str, after: str, n: int) -> list[MobileEndpoint]:
        """Up to `n`, in the order of their ids, after the given one ('' for the first)."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Forget up to `budget` endpoints of deleted applications. Returns how many there were (fewer: none waits)."""
        ...


class SmsStore(Protocol):
    """SMS attributes of an account in a region, the numbers that want nothing from an account, and those an account in
    the sandbox may send to."""

    async def attributes(self, account: str, region: str) -> dict[str, str]: ...

    async def set_attributes(self, account: str, region: str, changes: dict[str, str]) -> None:
        """An empty value removes an attribute."""
        ...

    async def opted_out(self, account: str, number: str) -> bool: ...

    async def opt_out(self, account: str, number: str) -> None: ...

    async def opt_in(self, account: str, number: str) -> None: ...

    async def page_of_opted_out(self, account: str, after: str, n: int) -> list[str]:
        """Up to `n` numbers after the given one ('' for the first), in an order that stays."""
        ...

    async def sandbox_number(self, account: str, region: str, number: str) -> SandboxNumber | None: ...

    async def put_sandbox_number(self, number: SandboxNumber, expected_version: int) -> bool:
        """False, and nothing is done, when the record there is of another version; 0 stands for none."""
        ...

    async def remove_sandbox_number(self, account: str, region: str, number: str) -> bool: ...

    async def page_of_sandbox(self, account: str, region: str, after: str, n: int) -> list[SandboxNumber]:
        """Up to `n`, in the order of their numbers, after the given one."""
        ...
