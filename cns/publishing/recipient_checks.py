"""Recipients that get nothing: numbers that opted out or that the sandbox blocks, mobile endpoints disabled or gone."""

from __future__ import annotations

from cns.delivery.target import Target
from cns.endpoints.outcome import Cause
from cns.push.endpoints import find_endpoint
from cns.sms.numbers import NumberState
from cns.stores.mobile_contract import MobileEndpointStore, PlatformStore, SmsStore


class RecipientChecks:
    """Each check returns why nothing is sent, or None when the message is sent."""

    def __init__(
        self, sms: SmsStore, endpoints: MobileEndpointStore, applications: PlatformStore, *, in_sandbox: bool
    ) -> None:
        self._sms = sms
        self._endpoints = endpoints
        self._applications = applications
        self._in_sandbox = in_sandbox

    async def number(self, account: str, region: str, number: str) -> Cause | None:
        """Check a phone number for messages that `account` sends."""
        if await self._sms.opted_out(account, number):
            return Cause.OPTED_OUT
        if not self._in_sandbox:
            return None
        entered = await self._sms.sandbox_number(account, region, number)
        return None if entered is not None and entered.state is NumberState.VERIFIED else Cause.NOT_VERIFIED

    async def phone(self, target: Target) -> Cause | None:
        return await self.number(target.account, target.region, target.endpoint)

    async def mobile_endpoint(self, target: Target) -> Cause | None:
        found = await find_endpoint(self._endpoints, self._applications, target.endpoint)
        if found is None:
            return Cause.ENDPOINT_GONE
        return None if found.endpoint.enabled and found.application.enabled else Cause.ENDPOINT_DISABLED
