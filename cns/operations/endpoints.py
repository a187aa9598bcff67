"""CreatePlatformEndpoint, DeleteEndpoint, Get- and SetEndpointAttributes, ListEndpointsByPlatformApplication."""

from __future__ import annotations

from cns.errors import required_text
from cns.operations.platforms import required_attributes
from cns.push.endpoints import MobileEndpoints
from cns_common.aws.call import Call, Params, Result

_ARN = "EndpointArn"


class EndpointOperations:
    def __init__(self, endpoints: MobileEndpoints) -> None:
        self._endpoints = endpoints

    async def create_platform_endpoint(self, call: Call, params: Params) -> Result:
        """CustomUserData is a parameter and an attribute; the attribute wins."""
        arn = required_text(params, "PlatformApplicationArn")
        token = required_text(params, "Token")
        own = {"CustomUserData": params["CustomUserData"]} if "CustomUserData" in params else {}
        given = {**own, **(params.get("Attributes") or {})}
        return {_ARN: await self._endpoints.create(call, arn, token, given)}

    async def delete_endpoint(self, call: Call, params: Params) -> Result:
        await self._endpoints.delete(call, required_text(params, _ARN))
        return {}

    async def get_endpoint_attributes(self, call: Call, params: Params) -> Result:
        return {"Attributes": await self._endpoints.describe(call, required_text(params, _ARN))}

    async def set_endpoint_attributes(self, call: Call, params: Params) -> Result:
        arn = required_text(params, _ARN)
        await self._endpoints.set_attributes(call, arn, required_attributes(params))
        return {}

    async def list_endpoints_by_platform_application(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "PlatformApplicationArn")
        page, token = await self._endpoints.page(call, arn, params.get("NextToken"))
        return {
            "Endpoints": [{_ARN: each.arn, "Attributes": each.attributes} for each in page],
            "NextToken": token,
        }
