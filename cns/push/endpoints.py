"""Create, change, list and delete mobile endpoints: the tokens of devices in platform applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from cns.authorization import check_owner
from cns.errors import concurrent_access, invalid_parameter
from cns.limits import PAGE_SIZE, UPDATE_TRIES_MAX
from cns.paging import page_of, read_token
from cns.push.applications import PlatformApplications, no_such_application
from cns.push.arns import check_application_arn, check_endpoint_arn
from cns.push.attributes import check_endpoint, endpoint_attributes
from cns.push.events import EndpointEvents
from cns.push.model import MobileEndpoint, PlatformApplication
from cns.stores.mobile_contract import MobileEndpointStore, PlatformStore
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text


class EndpointRecord(NamedTuple):
    """An endpoint and its application."""

    endpoint: MobileEndpoint
    application: PlatformApplication


async def find_endpoint(store: MobileEndpointStore, applications: PlatformStore, arn: str) -> EndpointRecord | None:
    """Find an endpoint. None if it, or its incarnation of the application, does not exist any more."""
    endpoint = await store.get(arn)
    application = await applications.get(endpoint.application_arn) if endpoint else None
    if endpoint is None or application is None or application.id != endpoint.application_id:
        return None
    return EndpointRecord(endpoint, application)


class MobileEndpoints:
    def __init__(
        self,
        store: MobileEndpointStore,
        applications: PlatformStore,
        platforms: PlatformApplications,
        events: EndpointEvents,
        clock: Clock,
    ) -> None:
        self._store = store
        self._applications = applications
        self._platforms = platforms
        self._events = events
        self._clock = clock

    async def create(self, call: Call, application_arn: str, token: str, given: Mapping[str, str]) -> str:
        """Create the endpoint of a token in an application, or find an identical one. Return its ARN."""
        check_application_arn(application_arn, call.region)
        if not token:
            raise invalid_parameter("Token Reason: cannot be empty")
        check_endpoint({"Token": token, **given})
        application = await self._platforms.find(call, application_arn, "CreatePlatformEndpoint")
        wanted = endpoint_attributes(application.platform, {"Enabled": "true", "Token": token, **given})
        endpoint = MobileEndpoint(
            id=uuid_text(),
            application_arn=application.arn,
            application_id=application.id,
            created_ms=self._clock.now_ms(),
            attributes=wanted,
        )
        stored = await self._store.create(endpoint)
        if stored is None:
            raise no_such_application()
        if stored.attributes != wanted:
            raise invalid_parameter(
                f"Token Reason: Endpoint {stored.arn} already exists with the same Token, but different attributes."
            )
        if stored.id == endpoint.id:
            await self._events.publish(call, application, "EndpointCreated", stored)
        return stored.arn

    async def delete(self, call: Call, arn: str) -> None:
        """Delete an endpoint. Succeed if there is none."""
        check_endpoint_arn(arn, call.region)
        found = await self.look_up(arn)
        if found is None:
            return
        check_owner(call, found.application.account, "DeleteEndpoint", arn)
        if await self._store.delete(arn):
            await self._events.publish(call, found.application, "EndpointDeleted", found.endpoint)

    async def describe(self, call: Call, arn: str) -> dict[str, str]:
        check_endpoint_arn(arn, call.region)
        return (await self._find(call, arn, "GetEndpointAttributes")).endpoint.attributes

    async def set_attributes(self, call: Call, arn: str, given: Mapping[str, str]) -> None:
        check_endpoint_arn(arn, call.region)
        check_endpoint(given)
        for _ in range(UPDATE_TRIES_MAX):
            current, application = await self._find(call, arn, "SetEndpointAttributes")
            changes = endpoint_attributes(application.platform, given)
            after = replace(current, version=current.version + 1, attributes={**current.attributes, **changes})
            if await self._store.replace(after, current.version):
                await self._events.publish(call, application, "EndpointUpdated", after)
                return
            if await self._store.token_taken(after):
                raise invalid_parameter("This endpoint is already registered with a different token.")
        raise concurrent_access()

    async def page(
        self, call: Call, application_arn: str, token: str | None
    ) -> tuple[Sequence[MobileEndpoint], str | None]:
        application = await self._platforms.find(call, application_arn, "ListEndpointsByPlatformApplication")
        found = await self._store.page(application.id, read_token(token), PAGE_SIZE + 1)
        return page_of(found, lambda endpoint: endpoint.id)

    async def look_up(self, arn: str) -> EndpointRecord | None:
        """Find an endpoint of any account."""
        return await find_endpoint(self._store, self._applications, arn)

    async def _find(self, call: Call, arn: str, action: str) -> EndpointRecord:
        found = await self.look_up(arn)
        if found is None:
            raise RequestError("NotFound", "Endpoint does not exist")
        check_owner(call, found.application.account, action, arn)
        return found
