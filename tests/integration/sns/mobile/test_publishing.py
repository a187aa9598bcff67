"""Publish to a mobile endpoint: refused messages, and the jobs of accepted ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.push.model import text_key
from cns_common.events.schema import PublishAccepted
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, call, invalid
from tests.integration.sns.mobile.sns_mobile import (
    APPLICATION,
    NO_ENDPOINT,
    application,
    direct_job,
    endpoint,
)

NO_SUCH = invalid("TargetArn Reason: No endpoint found for the target arn specified")
TTL = {"AWS.SNS.MOBILE.APNS.TTL": {"DataType": "String", "StringValue": "10"}}
spec = pytest.mark.spec


@spec("push.attributes")
async def test_one_durable_job(rig: Rig, arn: str) -> None:
    result = await rig("Publish", TargetArn=arn, Message="m", Subject="s", MessageAttributes=TTL)
    (put,) = rig.queue.new_jobs
    assert (put.queue, put.id, put.group) == (jobs.ENDPOINT_JOBS, result["MessageId"], ACCOUNT)
    job = direct_job(rig)
    assert (job.protocol, job.endpoint, job.account, job.region) == ("application", arn, ACCOUNT, REGION)
    assert (job.inline.texts, job.inline.subject) == ({"default": "m"}, "s")
    assert job.inline.attributes == {"AWS.SNS.MOBILE.APNS.TTL": ("String", "10")}
    assert (job.notification_id, job.inline.id) == (result["MessageId"],) * 2
    accepted = rig.events.events[-1]
    assert isinstance(accepted, PublishAccepted)
    assert (accepted.message_id, accepted.topic, accepted.jobs) == (put.id, arn, 1)


@spec("push.platform-text")
@pytest.mark.parametrize(
    ("platform", "text"),
    [("APNS", "of Apple"), ("GCM", "of Google"), ("FCM", "of Google"), ("Baidu", "of Baidu"), ("ADM", "for all")],
)
async def test_the_text_of_the_platform_is_sent(rig: Rig, platform: str, text: str) -> None:
    arn = await endpoint(rig, app=await application(rig, "other", platform))
    texts = {"default": "for all", "APNS": "of Apple", "GCM": "of Google", "BAIDU": "of Baidu", "sms": "no"}
    await rig("Publish", TargetArn=arn, Message=json.dumps(texts), MessageStructure="json")
    job = direct_job(rig)
    assert job.inline.texts == {"default": text}
    assert job.inline.structured


@spec("push.platform-text")
@pytest.mark.parametrize("text", ["of Apple", ""])
async def test_the_text_of_the_platform_needs_no_default(rig: Rig, arn: str, text: str) -> None:
    await rig("Publish", TargetArn=arn, Message=json.dumps({"APNS": text}), MessageStructure="json")
    assert direct_job(rig).inline.texts == {"default": text}
    for message in ('{"GCM":"of Google"}', '{"APNS":{}}', '{"APNS":null}'):
        structured = {"TargetArn": arn, "Message": message, "MessageStructure": "json"}
        complaint = "Message Structure - No default entry in JSON message body"
        assert await rig.refusal("Publish", **structured) == invalid(complaint)


def test_names_of_platforms_in_a_message() -> None:
    assert text_key("arn:aws:sns:r:1:endpoint/APNS_SANDBOX/app/id") == "APNS_SANDBOX"


@spec("push.absent")
@pytest.mark.parametrize("arn", [NO_ENDPOINT, f"{NO_ENDPOINT}x", f"{NO_ENDPOINT}/\ud800", "arn:aws:sns:::endpoint/"])
async def test_a_missing_endpoint(rig: Rig, arn: str) -> None:
    assert await rig.refusal("Publish", TargetArn=arn, Message="m") == NO_SUCH


@spec("push.absent")
async def test_an_endpoint_of_another_region_or_a_deleted_application(rig: Rig, arn: str) -> None:
    assert await rig.refusal("Publish", call(ACCOUNT, "us-east-1"), TargetArn=arn, Message="m") == NO_SUCH
    await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    assert await rig.refusal("Publish", TargetArn=arn, Message="m") == NO_SUCH


@spec("push.disabled", "push.application-disabled", "push.order")
@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("m", "Message Structure - JSON message body failed to parse"),
        ("{}", "Message Structure - No default entry in JSON message body"),
    ],
)
async def test_a_disabled_endpoint_is_refused_before_the_structure(rig: Rig, message: str, complaint: str) -> None:
    arn = await endpoint(rig, Enabled="false")
    structured = {"TargetArn": arn, "Message": message, "MessageStructure": "json"}
    assert await rig.refusal("Publish", **structured) == ("EndpointDisabled", "Endpoint is disabled")
    await rig("SetEndpointAttributes", EndpointArn=arn, Attributes={"Enabled": "true"})
    assert await rig.refusal("Publish", **structured) == invalid(complaint)
    assert rig.queue.take() == []


@spec("push.disabled", "push.application-disabled")
async def test_disabled_endpoints_and_applications(rig: Rig) -> None:
    arn = await endpoint(rig, Enabled="false")
    assert await rig.refusal("Publish", TargetArn=arn, Message="m") == ("EndpointDisabled", "Endpoint is disabled")
    await rig("SetEndpointAttributes", EndpointArn=arn, Attributes={"Enabled": "true"})
    await rig("Publish", TargetArn=arn, Message="m")
    disabling = {"PlatformApplicationArn": APPLICATION, "Attributes": {"Enabled": "False"}}
    await rig("SetPlatformApplicationAttributes", **disabling)
    assert (await rig.refusal("Publish", TargetArn=arn, Message="m"))[0] == "PlatformApplicationDisabled"
    assert len(rig.queue.take()) == 1


@spec("push.other-account")
async def test_another_accounts_endpoint(rig: Rig, arn: str) -> None:
    code, text = await rig.refusal("Publish", call(OTHER), TargetArn=arn, Message="m")
    assert code == "AuthorizationError"
    assert f"SNS:Publish on resource: {arn}" in text
    assert rig.queue.take() == []


@spec("push.order")
@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        ({"Subject": "", "Message": ""}, invalid("Subject")),
        ({"Message": "", "MessageAttributes": {"a": {}}}, invalid("Empty message")),
        (
            {"Message": "m" * 262_145, "MessageAttributes": {"a..b": {"DataType": "String", "StringValue": "v"}}},
            ("ParameterValueInvalid", "Message attribute name can not have successive '.' character."),
        ),
        ({"Message": "m" * 262_145, "MessageStructure": "json"}, invalid("Message too long")),
        ({"Message": "m", "MessageStructure": "json"}, NO_SUCH),
    ],
)
async def test_the_message_is_checked_first(rig: Rig, params: dict[str, Any], refusal: tuple[str, str]) -> None:
    assert await rig.refusal("Publish", TargetArn=NO_ENDPOINT, **params) == refusal


@spec("push.topic-target")
async def test_a_target_may_be_a_topic(rig: Rig, topic: str) -> None:
    await rig.queue_subscription(topic)
    await rig("Publish", TargetArn=topic, Message="m")
    (job,) = rig.queue.take()
    assert isinstance(job, EndpointJob)
