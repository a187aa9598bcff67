"""Phones and mobile endpoints that get no messages of a topic, and the causes."""

from __future__ import annotations

from msgspec.structs import replace

from cns.delivery.target import Target, TargetCache
from cns.endpoints.outcome import Cause
from cns.publishing.recipient_checks import RecipientChecks
from cns.sms.numbers import NumberState, SandboxNumber
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig
from tests.integration.sns.mobile.sns_mobile import APPLICATION, application, endpoint

NUMBER = "+15551234567"


def recipient_checks(rig: Rig, *, in_sandbox: bool = False) -> RecipientChecks:
    return RecipientChecks(rig.sms, rig.mobile_endpoints, rig.platforms, in_sandbox=in_sandbox)


async def subscribe(rig: Rig, protocol: str, to: str) -> Target:
    arn = await rig.subscribe(await rig.topic(), protocol, to)
    (target,) = await TargetCache(rig.topics, rig.subscriptions).find([arn])
    return target


async def test_a_number_that_opted_out_of_the_topics_account(rig: Rig) -> None:
    target = await subscribe(rig, "sms", NUMBER)
    await rig.sms.opt_out(OTHER, NUMBER)
    assert await recipient_checks(rig).phone(target) is None
    await rig.sms.opt_out(ACCOUNT, NUMBER)
    assert await recipient_checks(rig).phone(target) is Cause.OPTED_OUT
    await rig("OptInPhoneNumber", phoneNumber=NUMBER)
    assert await recipient_checks(rig).phone(target) is None


async def test_an_unverified_number_in_the_sandbox(rig: Rig) -> None:
    target = await subscribe(rig, "sms", NUMBER)
    strict = recipient_checks(rig, in_sandbox=True)
    assert await strict.phone(target) is Cause.NOT_VERIFIED
    entered = SandboxNumber(account=ACCOUNT, region=REGION, number=NUMBER)
    assert await rig.sms.put_sandbox_number(entered, 0)
    assert await strict.phone(target) is Cause.NOT_VERIFIED
    assert await rig.sms.put_sandbox_number(replace(entered, state=NumberState.VERIFIED, version=2), 1)
    assert await strict.phone(target) is None


async def test_a_mobile_endpoint_that_is_disabled(rig: Rig, arn: str) -> None:
    target = await subscribe(rig, "application", arn)
    for enabled, cause in (("true", None), ("false", Cause.ENDPOINT_DISABLED), ("true", None)):
        await rig("SetEndpointAttributes", EndpointArn=arn, Attributes={"Enabled": enabled})
        assert await recipient_checks(rig).mobile_endpoint(target) is cause


async def test_a_mobile_endpoint_whose_application_is_disabled(rig: Rig) -> None:
    target = await subscribe(rig, "application", await endpoint(rig))
    await rig("SetPlatformApplicationAttributes", PlatformApplicationArn=APPLICATION, Attributes={"Enabled": "false"})
    assert await recipient_checks(rig).mobile_endpoint(target) is Cause.ENDPOINT_DISABLED


async def test_a_deleted_mobile_endpoint(rig: Rig, arn: str) -> None:
    target = await subscribe(rig, "application", arn)
    await rig("DeleteEndpoint", EndpointArn=arn)
    assert await recipient_checks(rig).mobile_endpoint(target) is Cause.ENDPOINT_GONE


async def test_a_mobile_endpoint_of_an_application_that_is_gone_or_was_created_anew(rig: Rig) -> None:
    target = await subscribe(rig, "application", await endpoint(rig))
    await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    assert await recipient_checks(rig).mobile_endpoint(target) is Cause.ENDPOINT_GONE
    await application(rig)
    assert await recipient_checks(rig).mobile_endpoint(target) is Cause.ENDPOINT_GONE
