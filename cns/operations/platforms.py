"""Create-, Delete-, Get-, SetPlatformApplication…, ListPlatformApplications."""

from __future__ import annotations

from cns.errors import null_member, required_text
from cns.push.applications import PlatformApplications, shown_attributes
from cns.push.arns import check_application_arn
from cns_common.aws.call import Call, Params, Result

_ARN = "PlatformApplicationArn"


class PlatformOperations:
    def __init__(self, platforms: PlatformApplications) -> None:
        self._platforms = platforms

    async def create_platform_application(self, call: Call, params: Params) -> Result:
        name = required_text(params, "Name")
        platform = required_text(params, "Platform")
        return {_ARN: await self._platforms.create(call, name, platform, required_attributes(params))}

    async def delete_platform_application(self, call: Call, params: Params) -> Result:
        await self._platforms.delete(call, required_text(params, _ARN))
        return {}

    async def get_platform_application_attributes(self, call: Call, params: Params) -> Result:
        return {"Attributes": await self._platforms.describe(call, required_text(params, _ARN))}

    async def set_platform_application_attributes(self, call: Call, params: Params) -> Result:
        arn = required_text(params, _ARN)
        check_application_arn(arn, call.region)  # AWS refuses a malformed ARN before missing attributes
        await self._platforms.set_attributes(call, arn, required_attributes(params))
        return {}

    async def list_platform_applications(self, call: Call, params: Params) -> Result:
        page, token = await self._platforms.page(call, params.get("NextToken"))
        return {
            "PlatformApplications": [{_ARN: each.arn, "Attributes": shown_attributes(each)} for each in page],
            "NextToken": token,
        }


def required_attributes(params: Params) -> dict[str, str]:
    """The required Attributes. An empty map counts as missing, as the Query protocol cannot express it."""
    attributes: dict[str, str] = params.get("Attributes") or {}
    if not attributes:
        raise null_member("attributes")
    return attributes
