"""Mobile endpoints through the API: tokens, attributes, lists and events."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from cns.delivery.jobs import EndpointJob
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, call, invalid
from tests.integration.sns.mobile.sns_mobile import (
    APPLICATION,
    NO_ATTRIBUTES,
    NO_ENDPOINT,
    OF_ENDPOINTS,
    application,
    endpoint,
    endpoint_attributes,
)
from tests.marks import case

ABSENT = ("NotFound", "Endpoint does not exist")
TAKEN = invalid("This endpoint is already registered with a different token.")
BAD_ID = "EndpointArn Reason: ARN specifies an invalid endpointId: UUID must be encoded in exactly 36 characters."
TOO_LONG = (
    "Attributes Reason: Invalid value for attribute: CustomUserData: must be at most 2048 bytes long in UTF-8 encoding"
)
ON_ENDPOINTS: list[tuple[str, dict[str, Any]]] = [
    ("DeleteEndpoint", {}),
    ("GetEndpointAttributes", {}),
    ("SetEndpointAttributes", {"Attributes": {"Enabled": "true"}}),
]
spec = pytest.mark.spec


async def set_attributes(rig: Rig, arn: str, **attributes: str) -> None:
    await rig("SetEndpointAttributes", EndpointArn=arn, Attributes=attributes)


@spec("endpoints.arn", "endpoints.defaults")
async def test_a_new_endpoint(rig: Rig, arn: str) -> None:
    prefix, _, endpoint_id = arn.rpartition("/")
    assert prefix == f"{OF_ENDPOINTS}/APNS/app"
    assert str(UUID(endpoint_id)) == endpoint_id
    assert await endpoint_attributes(rig, arn) == {"Enabled": "true", "Token": "token"}


@spec("endpoints.attributes", "endpoints.user-data")
async def test_attributes_may_come_with_it(rig: Rig) -> None:
    largest = "é" * 1024
    created = await rig(
        "CreatePlatformEndpoint",
        PlatformApplicationArn=APPLICATION,
        Token="t",
        CustomUserData="parameter",
        Attributes={"Enabled": "FALSE", "CustomUserData": largest},
    )
    shown = {"Enabled": "false", "Token": "t", "CustomUserData": largest}
    assert await endpoint_attributes(rig, created["EndpointArn"]) == shown


@spec("endpoints.same-token", "endpoints.same-token-differs")
async def test_the_same_token_again(rig: Rig) -> None:
    arn = await endpoint(rig, CustomUserData="u")
    assert await endpoint(rig, CustomUserData="u") == arn
    exists = invalid(f"Token Reason: Endpoint {arn} already exists with the same Token, but different attributes.")
    for attributes in ({}, {"CustomUserData": "v"}, {"CustomUserData": "u", "Enabled": "false"}):
        params = {"PlatformApplicationArn": APPLICATION, "Token": "token", "Attributes": attributes}
        assert await rig.refusal("CreatePlatformEndpoint", **params) == exists
    other = await application(rig, "other")
    assert await endpoint(rig, app=other) != arn


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        case("endpoints.unknown-attribute", {"Colour": "red"}, "Attributes Reason: Invalid attribute name: Colour"),
        case("endpoints.user-data", {"CustomUserData": "é" * 1025}, TOO_LONG),
        case(
            "endpoints.token-empty",
            {"Token": ""},
            "Attributes Reason: Invalid value for attribute: Token: cannot be empty",
        ),
        ({"Enabled": "yes"}, "Attributes Reason: Invalid value for attribute: Enabled"),
        ({"CustomUserData": "\ud800"}, "Attributes Reason: Invalid value for attribute: CustomUserData"),
        ({"Token": "\ud800"}, "Attributes Reason: Invalid value for attribute: Token"),
    ],
)
async def test_attributes_refused(rig: Rig, attributes: dict[str, str], complaint: str) -> None:
    arn = await endpoint(rig, "first")
    given = {"PlatformApplicationArn": APPLICATION, "Token": "t", "Attributes": attributes}
    assert await rig.refusal("CreatePlatformEndpoint", **given) == invalid(complaint)
    assert await rig.refusal("SetEndpointAttributes", EndpointArn=arn, Attributes=attributes) == invalid(complaint)


@spec("endpoints.token-empty")
async def test_an_empty_token(rig: Rig) -> None:
    refusal = await rig.refusal("CreatePlatformEndpoint", PlatformApplicationArn=APPLICATION, Token="")
    assert refusal == invalid("Token Reason: cannot be empty")


@spec("endpoints.apple-tokens")
async def test_apns_tokens_are_hexadecimal(rig: Rig) -> None:
    arn = await endpoint(rig, "ABCdef")
    assert await endpoint(rig, "abcDEF") == arn
    assert (await endpoint_attributes(rig, arn))["Token"] == "abcdef"
    await set_attributes(rig, arn, Token="FEDcba")
    assert (await endpoint_attributes(rig, arn))["Token"] == "fedcba"
    google = await endpoint(rig, "ABCdef", await application(rig, "app", "GCM"))
    assert (await endpoint_attributes(rig, google))["Token"] == "ABCdef"


@spec("endpoints.set")
async def test_given_attributes_are_changed(rig: Rig, arn: str) -> None:
    for change, shown in [
        ({"Enabled": "False"}, {"Enabled": "false", "Token": "token"}),
        ({"CustomUserData": "u"}, {"Enabled": "false", "Token": "token", "CustomUserData": "u"}),
        ({"Token": "new", "Enabled": "true"}, {"Enabled": "true", "Token": "new", "CustomUserData": "u"}),
        ({"CustomUserData": ""}, {"Enabled": "true", "Token": "new", "CustomUserData": ""}),
    ]:
        await set_attributes(rig, arn, **change)
        assert await endpoint_attributes(rig, arn) == shown


@spec("endpoints.token-taken", "endpoints.token-moved")
async def test_a_token_belongs_to_one_endpoint(rig: Rig) -> None:
    first, second = await endpoint(rig, "one"), await endpoint(rig, "two")
    refusal = await rig.refusal("SetEndpointAttributes", EndpointArn=second, Attributes={"Token": "one"})
    assert refusal == TAKEN
    assert (await endpoint_attributes(rig, second))["Token"] == "two"
    await set_attributes(rig, first, Token="three")
    await set_attributes(rig, second, Token="one")
    assert await endpoint(rig, "three") == first
    assert await endpoint(rig, "one") == second
    assert await endpoint(rig, "two") not in (first, second)


@spec("endpoints.attributes-null-first")
async def test_missing_attributes_are_checked_first(rig: Rig) -> None:
    assert await rig.refusal("SetEndpointAttributes", EndpointArn=NO_ENDPOINT) == NO_ATTRIBUTES


@spec("endpoints.absent")
@pytest.mark.parametrize(("action", "params"), ON_ENDPOINTS[1:])
async def test_absent_resources(rig: Rig, arn: str, action: str, params: dict[str, Any]) -> None:
    assert await rig.refusal(action, EndpointArn=NO_ENDPOINT, **params) == ABSENT
    assert await rig.refusal(action, EndpointArn=arn.replace("/app/", "/other/"), **params) == ABSENT


@spec("endpoints.delete")
async def test_deleting_again_succeeds(rig: Rig, arn: str) -> None:
    for _ in range(2):
        await rig("DeleteEndpoint", EndpointArn=arn)
    assert await rig.refusal("GetEndpointAttributes", EndpointArn=arn) == ABSENT
    assert await endpoint(rig) != arn


@spec("apps.delete-endpoints")
async def test_endpoints_are_deleted_with_their_application(rig: Rig, arn: str) -> None:
    await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    assert await rig.refusal("GetEndpointAttributes", EndpointArn=arn) == ABSENT
    await application(rig)
    assert await rig.refusal("GetEndpointAttributes", EndpointArn=arn) == ABSENT
    listed = await rig("ListEndpointsByPlatformApplication", PlatformApplicationArn=APPLICATION)
    assert listed["Endpoints"] == []
    assert await endpoint(rig) != arn


@spec("endpoints.arn-form")
@pytest.mark.parametrize(
    ("arn", "complaint"),
    [
        ("x", "EndpointArn Reason: An ARN must have at least 6 elements, not 1"),
        (f"{NO_ENDPOINT}/x", "EndpointArn Reason: Wrong number of slashes in relative portion of the ARN."),
        (APPLICATION, "EndpointArn Reason: Wrong number of slashes in relative portion of the ARN."),
        (f"{NO_ENDPOINT}invalid", BAD_ID),
        (NO_ENDPOINT.replace("4000", "400g"), "EndpointArn Reason: ARN specifies an invalid endpointId: Invalid UUID."),
        (NO_ENDPOINT.replace(REGION, "us-east-1"), "EndpointArn"),
        (NO_ENDPOINT.replace(":sns:", ":sqs:"), "EndpointArn"),
        (NO_ENDPOINT.replace("/app/", "/é/"), "EndpointArn"),
    ],
)
async def test_arns_refused(rig: Rig, arn: str, complaint: str) -> None:
    for action, params in ON_ENDPOINTS:
        assert await rig.refusal(action, EndpointArn=arn, **params) == invalid(complaint)


@spec("endpoints.list")
async def test_endpoints_in_pages(rig: Rig) -> None:
    arns = sorted([await endpoint(rig, f"token-{number}") for number in range(205)])
    await endpoint(rig, app=await application(rig, "other"))
    pages = await rig.pages("ListEndpointsByPlatformApplication", PlatformApplicationArn=APPLICATION)
    found = [each for page in pages for each in page["Endpoints"]]
    assert [each["EndpointArn"] for each in found] == arns
    assert [len(page["Endpoints"]) for page in pages] == [100, 100, 5]
    assert {each["Attributes"]["Token"] for each in found} == {f"token-{number}" for number in range(205)}


@spec("endpoints.other-account")
@pytest.mark.parametrize(("action", "params"), ON_ENDPOINTS)
async def test_other_accounts_may_not(rig: Rig, arn: str, action: str, params: dict[str, Any]) -> None:
    code, text = await rig.refusal(action, call(OTHER), EndpointArn=arn, **params)
    assert code == "AuthorizationError"
    assert arn in text
    assert await endpoint_attributes(rig, arn) == {"Enabled": "true", "Token": "token"}


@spec("endpoints.events")
async def test_events_of_endpoints_are_published(rig: Rig) -> None:
    topic = await rig.topic("told")
    await rig.queue_subscription(topic)
    happenings = ["EndpointCreated", "EndpointUpdated", "EndpointDeleted"]
    watched = await application(rig, "watched", "GCM", **{f"Event{happening}": topic for happening in happenings})
    rig.queue.take()
    arn = await endpoint(rig, app=watched)
    await endpoint(rig, app=watched)
    await set_attributes(rig, arn, Enabled="false")
    for _ in range(2):
        await rig("DeleteEndpoint", EndpointArn=arn)
    await endpoint(rig)
    told = [job.inline for job in rig.queue.take() if isinstance(job, EndpointJob)]
    messages = [json.loads(notification.texts["default"]) for notification in told if notification]
    assert [message["EventType"] for message in messages] == happenings
    assert {(message["EndpointArn"], message["Resource"]) for message in messages} == {(arn, watched)}
    assert told[0] is not None
    assert told[0].subject == "EndpointCreated event for app watched (GCM)"


@spec("endpoints.events-lost")
async def test_a_missing_event_topic_is_ignored(rig: Rig) -> None:
    for topic in (f"arn:aws:sns:{REGION}:{ACCOUNT}:gone", f"arn:aws:sns:{REGION}:{OTHER}:t"):
        watched = await application(rig, f"a-{topic[-4:].replace(':', '')}", EventEndpointCreated=topic)
        assert (await endpoint_attributes(rig, await endpoint(rig, app=watched)))["Enabled"] == "true"
