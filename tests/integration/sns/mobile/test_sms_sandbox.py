"""The SMS sandbox through the API: only numbers verified by a password get messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cns.limits import Quotas
from cns.sms.sandbox import FAILURES_MAX, NUMBERS_MAX, PASSWORD_LIFE_MS
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, OTHER, Rig, call, invalid, open_rig
from tests.integration.sns.mobile.sns_mobile import direct_job
from tests.marks import case

NUMBER = "+15551234567"
PATTERN = r"Member must satisfy regular expression pattern: ^(\+[0-9]{8,}|[0-9]{0,9})$"
WRONG = ("VerificationException", "The one-time password is invalid or has expired")
spec = pytest.mark.spec


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas(), sms_sandbox=True) as rig:
        yield rig


async def add_number(rig: Rig, number: str = NUMBER) -> str:
    """Add a number to the sandbox. Returns the password that was sent to it."""
    assert await rig("CreateSMSSandboxPhoneNumber", PhoneNumber=number) == {}
    job = direct_job(rig)
    assert (job.protocol, job.endpoint) == ("sms", number)
    return job.inline.texts["default"].rpartition(" ")[2]


async def verify(rig: Rig, password: str, number: str = NUMBER) -> None:
    await rig("VerifySMSSandboxPhoneNumber", PhoneNumber=number, OneTimePassword=password)


async def numbers(rig: Rig, **params: Any) -> dict[str, str]:
    page = await rig("ListSMSSandboxPhoneNumbers", **params)
    return {each["PhoneNumber"]: each["Status"] for each in page["PhoneNumbers"]}


def wrong_password(password: str) -> str:
    return f"{(int(password) + 1) % 10 ** len(password):0{len(password)}}"


def validation_error(path: str, constraint: str, value: str = "") -> tuple[str, str]:
    shown = f" '{value}'" if value else ""
    return (
        "ValidationError",
        f"1 validation error detected: Value{shown} at '{path}' failed to satisfy constraint: {constraint}",
    )


@spec("sandbox.status")
async def test_the_setting_puts_accounts_into_the_sandbox(rig: Rig, tmp_path: Path) -> None:
    assert await rig("GetSMSSandboxAccountStatus") == {"IsInSandbox": True}
    other = tmp_path / "other"
    other.mkdir()
    async with open_rig(other, Clock(), Quotas()) as outside:
        assert await outside("GetSMSSandboxAccountStatus") == {"IsInSandbox": False}


@spec("sandbox.enter", "sandbox.verify")
async def test_a_number_is_added_and_verified(rig: Rig) -> None:
    password = await add_number(rig)
    assert password.isdigit()
    assert len(password) in range(5, 9)
    assert await numbers(rig) == {NUMBER: "Pending"}
    await verify(rig, password)
    assert await numbers(rig) == {NUMBER: "Verified"}
    assert (await rig.by(call(OTHER), "ListSMSSandboxPhoneNumbers"))["PhoneNumbers"] == []
    await rig("CreateSMSSandboxPhoneNumber", PhoneNumber=NUMBER)
    assert rig.queue.take() == [], "it is verified"
    assert await numbers(rig) == {NUMBER: "Verified"}


async def refused(rig: Rig, password: str) -> bool:
    params = {"PhoneNumber": NUMBER, "OneTimePassword": password}
    return await rig.refusal("VerifySMSSandboxPhoneNumber", **params) == WRONG


@spec("sandbox.again")
async def test_only_the_last_password_is_valid(rig: Rig) -> None:
    first, second = await add_number(rig), await add_number(rig)
    assert first == second or await refused(rig, first)
    await verify(rig, second)


@spec("sandbox.wrong")
async def test_a_password_expires(rig: Rig) -> None:
    password = await add_number(rig)
    for _ in range(FAILURES_MAX):
        assert await numbers(rig) == {NUMBER: "Pending"}
        assert await refused(rig, wrong_password(password))
    assert await refused(rig, password), "there were too many wrong guesses"
    password = await add_number(rig)
    rig.clock.advance(PASSWORD_LIFE_MS)
    assert await refused(rig, password), "it has expired"
    password = await add_number(rig)
    rig.clock.advance(PASSWORD_LIFE_MS - 10_000)
    await verify(rig, password)
    assert await refused(rig, password), "it was used"


@spec("sandbox.absent", "sandbox.delete")
async def test_missing_numbers(rig: Rig) -> None:
    await add_number(rig)
    await rig("DeleteSMSSandboxPhoneNumber", PhoneNumber=NUMBER)
    assert await numbers(rig) == {}
    assert (await rig.refusal("DeleteSMSSandboxPhoneNumber", PhoneNumber=NUMBER))[0] == "ResourceNotFound"
    params = {"PhoneNumber": NUMBER, "OneTimePassword": "12345"}
    assert (await rig.refusal("VerifySMSSandboxPhoneNumber", **params))[0] == "ResourceNotFound"


@spec("sandbox.opted-out")
async def test_a_number_that_opted_out(rig: Rig) -> None:
    await rig.sms.opt_out(ACCOUNT, NUMBER)
    assert (await rig.refusal("CreateSMSSandboxPhoneNumber", PhoneNumber=NUMBER))[0] == "OptedOut"
    assert await numbers(rig) == {}


@spec("sandbox.full", "sandbox.pages")
async def test_the_limit_of_numbers(rig: Rig) -> None:
    entries = [f"+155500000{number:02}" for number in range(NUMBERS_MAX)]
    for number in entries:
        await add_number(rig, number)
    assert (await rig.refusal("CreateSMSSandboxPhoneNumber", PhoneNumber=NUMBER))[0] == "UserError"
    await add_number(rig, entries[0])
    seen = await rig.pages("ListSMSSandboxPhoneNumbers", MaxResults=4)
    assert [len(page["PhoneNumbers"]) for page in seen] == [4, 4, 2]
    assert [each["PhoneNumber"] for page in seen for each in page["PhoneNumbers"]] == entries


@pytest.mark.parametrize(
    ("action", "params", "refusal"),
    [
        *[
            case("sandbox.number-form", action, {"PhoneNumber": number, "OneTimePassword": "12345"}, refusal)
            for action in (
                "CreateSMSSandboxPhoneNumber",
                "VerifySMSSandboxPhoneNumber",
                "DeleteSMSSandboxPhoneNumber",
            )
            for number, refusal in [
                ("+1a234", validation_error("phoneNumber", PATTERN)),
                ("+1234567", validation_error("phoneNumber", PATTERN)),
                ("+" + "1" * 20, validation_error("phoneNumber", "Member must have length less than or equal to 20")),
                ("123456789", invalid("PhoneNumber Reason: input incorrectly formatted")),
            ]
        ],
        *[
            case(
                "sandbox.password-form",
                "VerifySMSSandboxPhoneNumber",
                {"PhoneNumber": NUMBER, "OneTimePassword": password},
                validation_error("oneTimePassword", constraint, password),
            )
            for password, constraint in [
                ("1234", "Member must have length greater than or equal to 5"),
                ("123456789", "Member must have length less than or equal to 8"),
                ("12345a", "Member must satisfy regular expression pattern: ^[0-9]+$"),
                ("１２３４５", "Member must satisfy regular expression pattern: ^[0-9]+$"),
            ]
        ],
        case(
            "sandbox.pages",
            "ListSMSSandboxPhoneNumbers",
            {"MaxResults": 0},
            validation_error("maxResults", "Member must have value greater than or equal to 1", "0"),
        ),
        case(
            "sandbox.pages",
            "ListSMSSandboxPhoneNumbers",
            {"MaxResults": 101},
            validation_error("maxResults", "Member must have value less than or equal to 100", "101"),
        ),
        case("sandbox.pages", "ListSMSSandboxPhoneNumbers", {"NextToken": "?"}, invalid("NextToken Reason: invalid")),
    ],
)
async def test_parameters_refused(rig: Rig, action: str, params: dict[str, Any], refusal: tuple[str, str]) -> None:
    assert await rig.refusal(action, **params) == refusal


@spec("sandbox.language")
async def test_languages(rig: Rig) -> None:
    await rig("CreateSMSSandboxPhoneNumber", PhoneNumber=NUMBER, LanguageCode="de-DE")
    code, text = await rig.refusal("CreateSMSSandboxPhoneNumber", PhoneNumber=NUMBER, LanguageCode="xx")
    assert (code, text.partition(": [")[0]) == (
        "ValidationError",
        "1 validation error detected: Value 'xx' at 'languageCode' failed to satisfy constraint: "
        "Member must satisfy enum value set",
    )


@spec("sandbox.numbers")
async def test_no_account_has_origination_numbers(rig: Rig) -> None:
    for params in ({}, {"MaxResults": 30}):
        assert await rig("ListOriginationNumbers", **params) == {"PhoneNumbers": []}
    for n, which in ((0, "greater than or equal to 1"), (31, "less than or equal to 30")):
        _, text = validation_error("maxResults", f"Member must have value {which}", str(n))
        assert await rig.refusal("ListOriginationNumbers", MaxResults=n) == ("ValidationException", text)
    assert await rig.refusal("ListOriginationNumbers", NextToken="?") == invalid("NextToken Reason: invalid")


@spec("sandbox.kept-back")
async def test_only_verified_numbers_get_messages(rig: Rig) -> None:
    password = await add_number(rig)
    for number in (NUMBER, "+15557654321"):
        assert (await rig("Publish", PhoneNumber=number, Message="m"))["MessageId"]
        assert getattr(rig.events.events[-1], "cause", "") == "permanent:not_verified"
    assert rig.queue.take() == []
    await verify(rig, password)
    await rig("Publish", PhoneNumber=NUMBER, Message="m")
    assert direct_job(rig).inline.texts == {"default": "m"}
