"""Create, change, list and delete platform applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cns.authorization import check_owner
from cns.errors import concurrent_access, invalid_parameter
from cns.limits import PAGE_SIZE, UPDATE_TRIES_MAX
from cns.paging import page_of, read_token
from cns.push.arns import check_application_arn
from cns.push.attributes import (
    application_attributes,
    check_application,
    check_application_name,
    check_platform,
    check_secrets,
    merge,
    split_secrets,
)
from cns.push.model import PlatformApplication
from cns.stores.mobile_contract import PlatformStore
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import hex_id


def no_such_application() -> RequestError:
    return RequestError("NotFound", "PlatformApplication does not exist")


class PlatformApplications:
    def __init__(self, store: PlatformStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, call: Call, name: str, platform: str, given: Mapping[str, str]) -> str:
        """Create the caller's application of this name, or find an identical one. Return its ARN."""
        check_application_name(name)
        check_platform(platform)
        check_secrets(platform, given)
        check_application(given)
        shown, secret = split_secrets(application_attributes(given))
        application = PlatformApplication(
            id=hex_id(),
            account=call.caller.account,
            region=call.region,
            platform=platform,
            name=name,
            created_ms=self._clock.now_ms(),
            attributes=merge({}, shown),
            secrets=secret,
        )
        existing = await self._store.create(application)
        if (existing.attributes, existing.secrets) != (application.attributes, application.secrets):
            raise invalid_parameter(
                "Name Reason: An application with the same name but different properties already exists"
            )
        return existing.arn

    async def delete(self, call: Call, arn: str) -> None:
        """Delete an application and its endpoints. Succeed if there is none."""
        check_application_arn(arn, call.region)
        application = await self._store.get(arn)
        if application is not None:
            check_owner(call, application.account, "DeletePlatformApplication", arn)
            await self._store.delete(arn)

    async def describe(self, call: Call, arn: str) -> dict[str, str]:
        return shown_attributes(await self.find(call, arn, "GetPlatformApplicationAttributes"))

    async def set_attributes(self, call: Call, arn: str, given: Mapping[str, str]) -> None:
        check_application(given)
        current = await self.find(call, arn, "SetPlatformApplicationAttributes")
        shown, secret = split_secrets(application_attributes(given))
        for _ in range(UPDATE_TRIES_MAX):
            after = replace(
                current,
                version=current.version + 1,
                attributes=merge(current.attributes, shown),
                secrets=merge(current.secrets, secret),
            )
            if await self._store.replace(after, current.version):
                return
            current = await self.find(call, arn, "SetPlatformApplicationAttributes")
        raise concurrent_access()

    async def page(self, call: Call, token: str | None) -> tuple[Sequence[PlatformApplication], str | None]:
        found = await self._store.page(call.caller.account, call.region, read_token(token), PAGE_SIZE + 1)
        return page_of(found, lambda application: application.arn)

    async def find(self, call: Call, arn: str, action: str) -> PlatformApplication:
        """Return the application. Raise if there is none, or if it belongs to another account."""
        check_application_arn(arn, call.region)
        found = await self._store.get(arn)
        if found is None:
            raise no_such_application()
        check_owner(call, found.account, action, arn)
        return found


def shown_attributes(application: PlatformApplication) -> dict[str, str]:
    """The attributes without secrets."""
    return {"Enabled": "true", **application.attributes}
