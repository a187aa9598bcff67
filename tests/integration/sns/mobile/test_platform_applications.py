"""Platform applications through the API: refused and returned attributes, lists and secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, call, invalid
from tests.integration.sns.mobile.sns_mobile import (
    APPLICATION,
    CREDENTIALS,
    NO_ATTRIBUTES,
    application,
    application_attributes,
)
from tests.marks import case

spec = pytest.mark.spec
NAME_CHARACTERS = "must contain only characters 'a'-'z', 'A'-'Z', '0'-'9', '_', '-', and '.'"
NO_APPLICATION = ("NotFound", "PlatformApplication does not exist")
ABSENT = f"{APPLICATION}x"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/feedback"


ON_APPLICATIONS: list[tuple[str, dict[str, Any]]] = [
    ("DeletePlatformApplication", {}),
    ("GetPlatformApplicationAttributes", {}),
    ("SetPlatformApplicationAttributes", {"Attributes": {"Enabled": "true"}}),
    ("ListEndpointsByPlatformApplication", {}),
    ("CreatePlatformEndpoint", {"Token": "t"}),
]


def bad_value(name: str, why: str = "") -> tuple[str, str]:
    return invalid(f"Attributes Reason: Invalid value for attribute: {name}{why}")


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        case("apps.name", {"Name": ""}, invalid(" Reason: cannot be empty")),
        case("apps.name", {"Name": "a" * 257}, invalid(f"{'a' * 257} Reason: must be at most 256 characters long")),
        case("apps.name", {"Name": "a b"}, invalid(f"a b Reason: {NAME_CHARACTERS}")),
        case("apps.name", {"Name": "é"}, invalid(f"é Reason: {NAME_CHARACTERS}")),
        case("apps.name", {"Name": None}, invalid("Name Reason: no value for required parameter")),
        case("apps.platform", {"Platform": "AAA"}, invalid("Platform Reason: AAA is not supported")),
        case("apps.create-order", {"Name": "", "Platform": "AAA"}, invalid(" Reason: cannot be empty")),
        case(
            "apps.create-order",
            {"Platform": "AAA", "Attributes": {"PlatformPrincipal": "p"}},
            invalid("Platform Reason: AAA is not supported"),
        ),
        case("apps.attributes-null", {"Attributes": {}}, NO_ATTRIBUTES),
        case("apps.attributes-null", {"Attributes": None}, NO_ATTRIBUTES),
        case(
            "apps.credential-alone",
            {"Attributes": {"PlatformCredential": "c"}},
            invalid("Attributes Reason: PlatformCredential attribute provided without PlatformPrincipal"),
        ),
        case(
            "apps.principal-alone",
            {"Attributes": {"PlatformPrincipal": "p"}},
            invalid("Attributes Reason: PlatformPrincipal attribute provided without PlatformCredential"),
        ),
        case(
            "apps.principal-alone",
            {"Platform": "GCM", "Attributes": {"PlatformPrincipal": "p"}},
            invalid("Attributes Reason: PlatformPrincipal attribute provided without PlatformCredential"),
        ),
    ],
)
async def test_creations_refused(rig: Rig, changes: dict[str, Any], refusal: tuple[str, str]) -> None:
    given = {"Name": "new", "Platform": "APNS", "Attributes": CREDENTIALS, **changes}
    params = {name: value for name, value in given.items() if value is not None}
    assert await rig.refusal("CreatePlatformApplication", **params) == refusal


@pytest.mark.parametrize(
    ("attributes", "refusal"),
    [
        case("apps.unknown-attribute", {"Colour": "red"}, invalid("Attributes Reason: Invalid attribute name: Colour")),
        *[
            case("apps.read-only", {name: "x"}, invalid(f"Attributes Reason: Invalid attribute name: {name}"))
            for name in ("AppleCertificateExpiryDate", "AuthenticationMethod")
        ],
        *[
            case(
                "apps.sample-rate",
                {"SuccessFeedbackSampleRate": rate},
                bad_value("SuccessFeedbackSampleRate", f": {rate} value provided is not an integer between 0-100"),
            )
            for rate in ("101", "-1", "5.0", "x", "²")
        ],
        *[
            case("apps.event-topics", {name: "arn:aws:sqs:eu-west-1:1:q"}, bad_value(name))
            for name in ("EventEndpointCreated", "EventEndpointDeleted", "EventEndpointUpdated", "EventDeliveryFailure")
        ],
        *[
            case("apps.roles", {name: "arn:aws:iam::1:user/u"}, bad_value(name))
            for name in ("SuccessFeedbackRoleArn", "FailureFeedbackRoleArn")
        ],
        case("apps.enabled", {"Enabled": "yes"}, bad_value("Enabled")),
        pytest.param({"PlatformCredential": ""}, bad_value("PlatformCredential", ": cannot be empty")),
        pytest.param({"PlatformCredential": "\ud800"}, bad_value("PlatformCredential")),
        pytest.param({"ApplePlatformTeamID": "a\n"}, bad_value("ApplePlatformTeamID")),
    ],
)
async def test_attributes_refused(rig: Rig, attributes: dict[str, str], refusal: tuple[str, str]) -> None:
    both = {**CREDENTIALS, **attributes}
    assert await rig.refusal("CreatePlatformApplication", Name="n", Platform="ADM", Attributes=both) == refusal
    setting = {"PlatformApplicationArn": APPLICATION, "Attributes": attributes}
    assert await rig.refusal("SetPlatformApplicationAttributes", **setting) == refusal
    assert await application_attributes(rig) == {"Enabled": "true"}


@spec("apps.arn", "apps.platforms")
@pytest.mark.parametrize(
    "platform", ["ADM", "APNS", "APNS_SANDBOX", "GCM", "Baidu", "MPNS", "WNS", "FCM", "APNS_VOIP", "MACOS"]
)
async def test_an_application_is_named_by_platform_and_name(rig: Rig, platform: str) -> None:
    arn = await application(rig, "My.app_1-x", platform)
    assert arn == f"arn:aws:sns:{REGION}:{ACCOUNT}:app/{platform}/My.app_1-x"
    await application(rig, "a" * 256, platform)


@spec("apps.gcm-without-principal")
async def test_gcm_has_no_principal(rig: Rig) -> None:
    given = {"PlatformCredential": "key"}
    result = await rig("CreatePlatformApplication", Name="n", Platform="GCM", Attributes=given)
    assert result["PlatformApplicationArn"].endswith(":app/GCM/n")


@spec("apps.secrets", "apps.shown")
async def test_attributes_are_returned_without_secrets(rig: Rig) -> None:
    given = {
        "EventEndpointCreated": TOPIC,
        "EventDeliveryFailure": TOPIC,
        "SuccessFeedbackRoleArn": ROLE,
        "SuccessFeedbackSampleRate": "0",
        "ApplePlatformTeamID": "team",
    }
    arn = await application(rig, "full", "APNS", **given)
    assert await application_attributes(rig, arn) == {"Enabled": "true", **given}
    assert await application_attributes(rig) == {"Enabled": "true"}


async def test_secrets_are_sealed_on_disk(rig: Rig, tmp_path: Path) -> None:
    await application(rig, "visible-name", "APNS", ApplePlatformTeamID="visible-team")
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"visible-name" in stored, "the ARN is a key"
    assert b"the secret" not in stored
    assert b"the id" not in stored


@spec("apps.set")
async def test_attributes_are_set_and_removed(rig: Rig) -> None:
    for change, after in [
        ({"EventEndpointCreated": TOPIC}, {"EventEndpointCreated": TOPIC}),
        ({"FailureFeedbackRoleArn": ROLE}, {"EventEndpointCreated": TOPIC, "FailureFeedbackRoleArn": ROLE}),
        ({"EventEndpointCreated": ""}, {"FailureFeedbackRoleArn": ROLE}),
        ({"PlatformCredential": "new"}, {"FailureFeedbackRoleArn": ROLE}),
    ]:
        await rig("SetPlatformApplicationAttributes", PlatformApplicationArn=APPLICATION, Attributes=change)
        assert await application_attributes(rig) == {"Enabled": "true", **after}
    kept = await rig.platforms.get(APPLICATION)
    assert kept is not None
    assert kept.secrets == {**CREDENTIALS, "PlatformCredential": "new"}


@spec("apps.same-name")
async def test_the_same_application_again(rig: Rig) -> None:
    assert await application(rig) == APPLICATION
    different = invalid("Name Reason: An application with the same name but different properties already exists")
    for changes in ({"PlatformCredential": "another"}, {"ApplePlatformTeamID": "team"}):
        given = {**CREDENTIALS, **changes}
        params = {"Name": "app", "Platform": "APNS", "Attributes": given}
        assert await rig.refusal("CreatePlatformApplication", **params) == different
    assert await application(rig, "app", "ADM") != APPLICATION


@spec("apps.absent")
@pytest.mark.parametrize(("action", "params"), ON_APPLICATIONS[1:])
async def test_absent_resources(rig: Rig, action: str, params: dict[str, Any]) -> None:
    assert await rig.refusal(action, PlatformApplicationArn=ABSENT, **params) == NO_APPLICATION
    await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    assert await rig.refusal(action, PlatformApplicationArn=APPLICATION, **params) == NO_APPLICATION


@spec("apps.attributes-null-first")
async def test_missing_attributes_are_checked_before_the_application(rig: Rig) -> None:
    assert await rig.refusal("SetPlatformApplicationAttributes", PlatformApplicationArn=ABSENT) == NO_ATTRIBUTES


@spec("apps.attributes-null-first", "apps.arn-form")
async def test_a_malformed_arn_is_refused_before_missing_attributes(rig: Rig) -> None:
    refusal = invalid("PlatformApplicationArn Reason: An ARN must have at least 6 elements, not 1")
    assert await rig.refusal("SetPlatformApplicationAttributes", PlatformApplicationArn="x") == refusal


@spec("apps.delete")
async def test_deleting_again_succeeds(rig: Rig) -> None:
    for _ in range(2):
        await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)


@spec("apps.arn-form")
@pytest.mark.parametrize(
    ("arn", "complaint"),
    [
        ("app/APNS/app", "PlatformApplicationArn Reason: An ARN must have at least 6 elements, not 1"),
        (f"{APPLICATION}/x", "PlatformApplicationArn Reason: Wrong number of slashes in relative portion of the ARN."),
        (TOPIC, "PlatformApplicationArn Reason: Wrong number of slashes in relative portion of the ARN."),
        (APPLICATION.replace(REGION, "us-east-1"), "PlatformApplicationArn"),
        (APPLICATION.replace(":sns:", ":sqs:"), "PlatformApplicationArn"),
        (APPLICATION.replace(":app/", ":endpoint/"), "PlatformApplicationArn"),
        (APPLICATION + "é", "PlatformApplicationArn"),
    ],
)
async def test_arns_refused(rig: Rig, arn: str, complaint: str) -> None:
    for action, params in ON_APPLICATIONS:
        assert await rig.refusal(action, PlatformApplicationArn=arn, **params) == invalid(complaint)


@spec("apps.list", "apps.pages", "apps.bad-token")
async def test_applications_in_pages(rig: Rig) -> None:
    arns = sorted([APPLICATION, *[await application(rig, f"app-{number:03}") for number in range(250)]])
    await rig.by(call(OTHER), "CreatePlatformApplication", Name="o", Platform="ADM", Attributes=CREDENTIALS)
    pages = await rig.pages("ListPlatformApplications")
    found = [each for page in pages for each in page["PlatformApplications"]]
    assert [each["PlatformApplicationArn"] for each in found] == arns
    assert [len(page["PlatformApplications"]) for page in pages] == [100, 100, 51]
    assert found[0]["Attributes"] == {"Enabled": "true"}
    refusal = await rig.refusal("ListPlatformApplications", NextToken="?")
    assert refusal == invalid("NextToken Reason: invalid")


@spec("apps.other-account")
@pytest.mark.parametrize(("action", "params"), ON_APPLICATIONS)
async def test_other_accounts_may_not(rig: Rig, action: str, params: dict[str, Any]) -> None:
    code, text = await rig.refusal(action, call(OTHER), PlatformApplicationArn=APPLICATION, **params)
    assert code == "AuthorizationError"
    assert f"is not authorized to perform: SNS:{action} on resource: {APPLICATION}" in text
    assert await application_attributes(rig) == {"Enabled": "true"}
