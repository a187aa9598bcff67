"""The service of `cns_support` with a platform application in it, for the tests of mobile push."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cns.delivery.jobs import DirectJob
from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, REGION, Rig, open_rig

CREDENTIALS = {"PlatformCredential": "the secret", "PlatformPrincipal": "the id"}
APPLICATION = f"arn:aws:sns:{REGION}:{ACCOUNT}:app/APNS/app"
OF_ENDPOINTS = f"arn:aws:sns:{REGION}:{ACCOUNT}:endpoint"
NO_ENDPOINT = f"{OF_ENDPOINTS}/APNS/app/00000000-0000-4000-8000-000000000000"
NO_ATTRIBUTES = (
    "ValidationError",
    "1 validation error detected: Value null at 'attributes' failed to satisfy constraint: Member must not be null",
)


@asynccontextmanager
async def open_mobile(directory: Path) -> AsyncIterator[Rig]:
    async with open_rig(directory, Clock(), Quotas()) as rig:
        assert await application(rig) == APPLICATION
        yield rig


async def application(rig: Rig, name: str = "app", platform: str = "APNS", **attributes: str) -> str:
    given = {**CREDENTIALS, **attributes}
    result = await rig("CreatePlatformApplication", Name=name, Platform=platform, Attributes=given)
    arn: str = result["PlatformApplicationArn"]
    return arn


async def endpoint(rig: Rig, token: str = "token", app: str = APPLICATION, **attributes: str) -> str:
    result = await rig("CreatePlatformEndpoint", PlatformApplicationArn=app, Token=token, Attributes=attributes)
    arn: str = result["EndpointArn"]
    return arn


async def endpoint_attributes(rig: Rig, arn: str) -> dict[str, str]:
    attributes: dict[str, str] = (await rig("GetEndpointAttributes", EndpointArn=arn))["Attributes"]
    return attributes


async def application_attributes(rig: Rig, arn: str = APPLICATION) -> dict[str, str]:
    result = await rig("GetPlatformApplicationAttributes", PlatformApplicationArn=arn)
    attributes: dict[str, str] = result["Attributes"]
    return attributes


def direct_job(rig: Rig) -> DirectJob:
    """The only job enqueued since the last call."""
    (job,) = rig.queue.take()
    assert isinstance(job, DirectJob)
    return job
