"""SMS through the API: attributes, opting out, and Publish to a phone number."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns.delivery import jobs
from cns_common.events.schema import NotificationDropped, PublishAccepted
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, call, invalid
from tests.integration.sns.mobile.sns_mobile import NO_ATTRIBUTES, direct_job
from tests.marks import case

NUMBER = "+15551234567"
FRESH = {"MonthlySpendLimit": "1"}
BAD_NUMBERS = ["", "123", "+0123456789", "NAA+15551234567", "+1a234", "+" + "1" * 16, "+1 5551234567", "+१२३४५६७८"]
FORM = invalid("PhoneNumber Reason: input incorrectly formatted")
spec = pytest.mark.spec


def plain(text: str) -> tuple[str, str]:
    """An InvalidParameter error. For SMS, AWS leaves out its prefix."""
    return "InvalidParameter", text


async def attributes(rig: Rig, *names: str) -> dict[str, str]:
    shown: dict[str, str] = (await rig("GetSMSAttributes", attributes=list(names)))["attributes"]
    return shown


@spec("sms.fresh", "sms.set", "sms.filtered")
async def test_attributes_are_returned(rig: Rig) -> None:
    assert (await rig("GetSMSAttributes"))["attributes"] == FRESH
    given = {
        "DefaultSMSType": "Transactional",
        "DefaultSenderID": "Sender1",
        "DeliveryStatusSuccessSamplingRate": "100",
        "DeliveryStatusIAMRole": f"arn:aws:iam::{ACCOUNT}:role/r",
        "UsageReportS3Bucket": "a-bucket",
    }
    await rig("SetSMSAttributes", attributes=given)
    assert await attributes(rig) == FRESH | given
    assert await attributes(rig, "DefaultSMSType", "MonthlySpendLimit") == FRESH | {"DefaultSMSType": "Transactional"}
    assert await attributes(rig, "Other") == {}
    await rig("SetSMSAttributes", attributes={"DefaultSenderID": "", "MonthlySpendLimit": "20"})
    del given["DefaultSenderID"]
    assert await attributes(rig) == given | {"MonthlySpendLimit": "20"}


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        case("sms.null", {}, NO_ATTRIBUTES),
        case("sms.unknown", {"Colour": "red"}, plain("Colour is not a valid attribute")),
        case("sms.type", {"DefaultSMSType": "Loud"}, plain("DefaultSMSType is invalid")),
        *[
            case("sms.sender", {"DefaultSenderID": sender}, plain("DefaultSendID is not a valid attribute"))
            for sender in ("1234", "a" * 12, "with space", "dash-ed")
        ],
        *[
            case(
                "sms.rate",
                {"DeliveryStatusSuccessSamplingRate": rate},
                plain("DeliveryStatusSuccessSamplingRate is invalid"),
            )
            for rate in ("101", "-1", "x")
        ],
        ({"MonthlySpendLimit": "x"}, plain("MonthlySpendLimit is invalid")),
        ({"DeliveryStatusIAMRole": "x"}, plain("DeliveryStatusIAMRole is invalid")),
        ({"UsageReportS3Bucket": "A"}, plain("UsageReportS3Bucket is invalid")),
    ],
)
async def test_attributes_refused(rig: Rig, given: dict[str, str], refusal: tuple[str, str]) -> None:
    both = {"DefaultSMSType": "Promotional", **given} if given else {}
    assert await rig.refusal("SetSMSAttributes", attributes=both) == refusal
    assert await attributes(rig) == FRESH


@spec("sms.own")
async def test_attributes_are_an_accounts_in_a_region(rig: Rig) -> None:
    await rig("SetSMSAttributes", attributes={"DefaultSMSType": "Transactional"})
    for caller in (call(OTHER), call(ACCOUNT, "us-east-1")):
        assert (await rig.by(caller, "GetSMSAttributes"))["attributes"] == FRESH


# -- opting out -------------------------------------------------------------------------------------------------------


@spec("optout.check", "optout.opt-in")
async def test_opting_out_and_in(rig: Rig) -> None:
    await rig.sms.opt_out(ACCOUNT, NUMBER)
    for out in (True, False, False):
        assert await rig("CheckIfPhoneNumberIsOptedOut", phoneNumber=NUMBER) == {"isOptedOut": out}
        assert await rig.by(call(OTHER), "CheckIfPhoneNumberIsOptedOut", phoneNumber=NUMBER) == {"isOptedOut": False}
        assert await rig("OptInPhoneNumber", phoneNumber=NUMBER) == {}


@spec("optout.form")
@pytest.mark.parametrize("number", BAD_NUMBERS)
async def test_numbers_refused(rig: Rig, number: str) -> None:
    for action in ("CheckIfPhoneNumberIsOptedOut", "OptInPhoneNumber"):
        assert await rig.refusal(action, phoneNumber=number) == FORM


@spec("optout.list", "optout.bad-token")
async def test_numbers_in_pages(rig: Rig) -> None:
    numbers = [f"+1555{number:07}" for number in range(130)]
    for number in numbers:
        await rig.sms.opt_out(ACCOUNT, number)
    first = await rig("ListPhoneNumbersOptedOut")
    second = await rig("ListPhoneNumbersOptedOut", nextToken=first["nextToken"])
    assert [len(page["phoneNumbers"]) for page in (first, second)] == [100, 30]
    assert sorted(first["phoneNumbers"] + second["phoneNumbers"]) == numbers
    assert second["nextToken"] is None
    assert await rig.refusal("ListPhoneNumbersOptedOut", nextToken="?") == invalid("NextToken Reason: invalid")


# -- publishing -------------------------------------------------------------------------------------------------------


def attribute(name: str, text: str, data_type: str = "String") -> dict[str, Any]:
    return {name: {"DataType": data_type, "StringValue": text}}


@spec("phone.accepted")
async def test_one_durable_job(rig: Rig) -> None:
    given = attribute("AWS.SNS.SMS.SenderID", "Me") | attribute("AWS.SNS.SMS.MaxPrice", "0.5", "Number")
    result = await rig("Publish", PhoneNumber=NUMBER, Message="m", MessageAttributes=given)
    (put,) = rig.queue.new_jobs
    assert (put.queue, put.id, put.group) == (jobs.ENDPOINT_JOBS, result["MessageId"], ACCOUNT)
    job = direct_job(rig)
    assert (job.protocol, job.endpoint, job.account, job.region) == ("sms", NUMBER, ACCOUNT, REGION)
    assert job.inline.texts == {"default": "m"}
    assert job.inline.attributes["AWS.SNS.SMS.SenderID"] == ("String", "Me")
    accepted = rig.events.events[-1]
    assert isinstance(accepted, PublishAccepted)
    assert (accepted.message_id, accepted.topic, accepted.jobs) == (put.id, "", 1)


@spec("phone.form")
@pytest.mark.parametrize("number", BAD_NUMBERS)
async def test_publishing_to_a_bad_number(rig: Rig, number: str) -> None:
    refusal = await rig.refusal("Publish", PhoneNumber=number, Message="m")
    assert refusal == invalid(f"PhoneNumber Reason: {number} is not valid to publish to")


@spec("phone.size")
async def test_the_length_of_a_message(rig: Rig) -> None:
    await rig("Publish", PhoneNumber=NUMBER, Message="é" * 1_600)
    refusal = await rig.refusal("Publish", PhoneNumber=NUMBER, Message="m" * 1_601)
    assert refusal == invalid("Message too long")
    assert len(rig.queue.take()) == 1


@spec("phone.attributes")
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("AWS.SNS.SMS.SenderID", ["A", "Sender-1234"], ["123", "a" * 12, "a b"]),
        ("AWS.SNS.SMS.SMSType", ["Promotional", "Transactional"], ["promotional", "x"]),
        ("AWS.SNS.SMS.MaxPrice", ["0.50", "2"], ["-1", "1e3"]),
        ("AWS.MM.SMS.OriginationNumber", ["12345", "+15551234567"], ["+", "a b"]),
        ("AWS.MM.SMS.EntityId", ["1101456324675322134"], ["a" * 51, " "]),
        ("AWS.MM.SMS.TemplateId", ["1107160073448943624"], ["a" * 51]),
    ],
)
async def test_attributes_of_a_message(rig: Rig, name: str, good: list[str], bad: list[str]) -> None:
    kind = "Number" if name.endswith("MaxPrice") else "String"
    for text in good:
        await rig("Publish", PhoneNumber=NUMBER, Message="m", MessageAttributes=attribute(name, text, kind))
    for text in bad:
        given = attribute(name, text, kind)
        assert await rig.refusal("Publish", PhoneNumber=NUMBER, Message="m", MessageAttributes=given) == invalid(name)
    wrong_type = attribute(name, "1", "String" if kind == "Number" else "Number")
    assert await rig.refusal("Publish", PhoneNumber=NUMBER, Message="m", MessageAttributes=wrong_type) == invalid(name)


@spec("phone.structure")
async def test_the_text_for_phones_is_sent(rig: Rig) -> None:
    for texts, text in [({"default": "d", "sms": "s"}, "s"), ({"default": "d", "email": "e"}, "d")]:
        await rig("Publish", PhoneNumber=NUMBER, Message=json.dumps(texts), MessageStructure="json")
        assert direct_job(rig).inline.texts == {"default": text}


@spec("phone.order")
@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        ({"Subject": "", "Message": ""}, invalid("Subject")),
        ({"Message": ""}, invalid("Empty message")),
        (
            {"Message": "m", "MessageAttributes": {"..": {}}},
            invalid("PhoneNumber Reason: x is not valid to publish to"),
        ),
    ],
)
async def test_the_order_of_the_checks(rig: Rig, params: dict[str, Any], refusal: tuple[str, str]) -> None:
    assert await rig.refusal("Publish", PhoneNumber="x", **params) == refusal


@spec("phone.opted-out")
async def test_a_number_that_opted_out_gets_nothing(rig: Rig) -> None:
    await rig.sms.opt_out(ACCOUNT, NUMBER)
    assert (await rig("Publish", PhoneNumber=NUMBER, Message="m"))["MessageId"]
    assert rig.queue.take() == []
    accepted, dropped = rig.events.events[-2:]
    assert isinstance(accepted, PublishAccepted) and accepted.jobs == 0
    assert isinstance(dropped, NotificationDropped)
    assert (dropped.cause, dropped.message_id) == ("permanent:opted_out", accepted.message_id)
    await rig("OptInPhoneNumber", phoneNumber=NUMBER)
    await rig("Publish", PhoneNumber=NUMBER, Message="m")
    assert direct_job(rig).endpoint == NUMBER
