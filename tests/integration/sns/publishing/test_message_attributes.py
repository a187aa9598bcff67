"""Message attributes at Publish and PublishBatch, through botocore."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, REGION
from tests.integration.sns.sns_door import Refusal, SnsDoor, bad_attribute, invalid

spec = pytest.mark.spec
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"


def text(data_type: str, value: str) -> dict[str, Any]:
    return {"DataType": data_type, "StringValue": value}


def binary(data_type: str, value: bytes) -> dict[str, Any]:
    return {"DataType": data_type, "BinaryValue": value}


async def stored_attributes(sns: SnsDoor, attributes: dict[str, Any], *, batch: bool) -> dict[str, tuple[str, str]]:
    """Publish a message with these attributes. Returns those of its notification."""
    message = {"Message": "m", "MessageAttributes": attributes}
    if batch:
        entries = [{"Id": "a", **message}]
        assert (await sns("PublishBatch", TopicArn=TOPIC, PublishBatchRequestEntries=entries))["Successful"]
    else:
        await sns("Publish", TopicArn=TOPIC, **message)
    inline = sns.rig.endpoint_job().inline
    assert inline is not None
    return inline.attributes


def accepted_case(name: str, sent: dict[str, Any], stored: tuple[str, str], *rules: str) -> Any:
    return pytest.param(name, sent, stored, marks=spec(*rules))


@spec("sns.message-attributes", "sns.batch-entries")
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("name", "sent", "stored"),
    [
        *(
            accepted_case("n", text(data_type, "1"), (data_type, "1"), "sns-attr.types")
            for data_type in ("String", "String.x", "String.Array", "String.Array.x", "Number", "Number.int")
        ),
        accepted_case("n", binary("Binary", b"\x00\xff"), ("Binary", "AP8="), "sns-attr.types", "sns-attr.binary"),
        accepted_case("n", binary("Binary.png", b"\x00"), ("Binary.png", "AA=="), "sns-attr.types", "sns-attr.binary"),
        accepted_case("Az_09-.x", text("String", "v"), ("String", "v"), "sns-attr.name-characters"),
        accepted_case("n" * 255, text("String", "v"), ("String", "v"), "sns-attr.name-length"),
        accepted_case("AWS.SNS.MOBILE.APNS.TTL", text("String", "v"), ("String", "v"), "sns-attr.aws-names"),
        accepted_case("n", text("String.Array", "not-json"), ("String.Array", "not-json"), "sns-attr.array"),
        accepted_case("n", text("Number", "0001.2300"), ("Number", "0001.2300"), "sns-attr.number-spelling"),
        accepted_case("n", text("Number", "9.99e125"), ("Number", "9.99e125"), "sns-attr.number-scale"),
        accepted_case("n", text("Number", "1e-128"), ("Number", "1e-128"), "sns-attr.number-scale"),
        accepted_case("n", text("Number", "1" * 38), ("Number", "1" * 38), "sns-attr.number-digits"),
        accepted_case("n", text("String", "雪\t\n"), ("String", "雪\t\n"), "sns-attr.characters"),
    ],
)
async def test_accepted_attributes(
    sns: SnsDoor, name: str, sent: dict[str, Any], stored: tuple[str, str], batch: bool
) -> None:
    await sns.rig.queue_subscription(await sns.topic())
    assert await stored_attributes(sns, {name: sent}, batch=batch) == {name: stored}


@spec("sns-attr.count")
async def test_many_attributes_are_accepted(sns: SnsDoor) -> None:
    await sns.rig.queue_subscription(await sns.topic())
    many = {f"n{number}": text("String", "v") for number in range(30)}
    assert (await stored_attributes(sns, many, batch=False)).keys() == many.keys()


def refused_case(name: str, sent: dict[str, Any], complaint: str, *rules: str) -> Any:
    return pytest.param(name, sent, bad_attribute(complaint), marks=spec("sns-attr.code", *rules))


def strange(code: str) -> str:
    return (
        f"Invalid non-alphanumeric character '#x{code}' was found in the message attribute name. Can only include "
        "alphanumeric characters, hyphens, underscores, or dots."
    )


def empty(data_type: str) -> str:
    return (
        "The message attribute 'n' must contain non-empty message attribute value for message attribute type "
        f"'{data_type}'."
    )


VALUE = text("String", "v")
TOO_LONG = "Length of message attribute name must be less than 256 bytes."
BAD_TYPE = (
    "The message attribute 'n' has an invalid message attribute type, the set of supported type prefixes is Binary, "
    "Number, and String."
)
NO_NUMBER = "Could not cast message attribute 'n' value to number."


@spec("sns-batch.bad-attribute", "sns-error.ParameterValueInvalid")
@pytest.mark.parametrize(
    ("name", "sent", "refusal"),
    [
        refused_case("a^b", VALUE, strange("5E"), "sns-attr.name-characters"),
        refused_case("a b", VALUE, strange("20"), "sns-attr.name-characters"),
        refused_case("ä", VALUE, strange("E4"), "sns-attr.name-characters"),
        refused_case("n" * 256, VALUE, TOO_LONG, "sns-attr.name-length"),
        refused_case("é" * 128, VALUE, TOO_LONG, "sns-attr.name-length"),
        refused_case(
            ".n",
            VALUE,
            "Invalid message attribute name starting with character '.' was found.",
            "sns-attr.name-leading-dot",
        ),
        refused_case(
            "n.",
            VALUE,
            "Invalid message attribute name ending with character '.' was found.",
            "sns-attr.name-trailing-dot",
        ),
        refused_case(
            "a..b", VALUE, "Message attribute name can not have successive '.' character.", "sns-attr.name-dots"
        ),
        *(refused_case("n", text(kind, "v"), BAD_TYPE, "sns-attr.type") for kind in ("Text", "string", "Stringy", "")),
        refused_case("n", text("String", ""), empty("String"), "sns-attr.empty"),
        refused_case("n", text("Number.int", ""), empty("Number.int"), "sns-attr.empty"),
        refused_case("n", binary("Binary", b""), empty("Binary"), "sns-attr.empty"),
        refused_case("n", {"DataType": "String"}, empty("String"), "sns-attr.empty"),
        refused_case(
            "n",
            binary("String.x", b"v"),
            "The message attribute 'n' with type 'String.x' must use field 'String'.",
            "sns-attr.wrong-field",
        ),
        refused_case(
            "n",
            text("Binary", "v"),
            "The message attribute 'n' with type 'Binary' must use field 'Binary'.",
            "sns-attr.wrong-field",
        ),
        *(
            refused_case("n", text("Number", value), NO_NUMBER, "sns-attr.number")
            for value in ("ten", "NaN", "1,5", " 1")
        ),
        refused_case(
            "n",
            text("Number", "1" * 39),
            f"Message attribute 'n' number value [{'1' * 39}] must have less than 38 precision digits.",
            "sns-attr.number-digits",
        ),
        *(
            refused_case(
                "n",
                text("Number", value),
                f"Message attribute 'n' number value [{value}] scale must be 10^-128 and 10^126.",
                "sns-attr.number-scale",
            )
            for value in ("1e126", "1e-129", "1e-100000")
        ),
        pytest.param(
            "n",
            text("String", "native-error:🙂"),
            invalid("Invalid attribute value was passed in for message attribute n"),
            marks=spec("sns-attr.characters", "sns-attr.characters-batch"),
        ),
    ],
)
async def test_attributes_refused(sns: SnsDoor, name: str, sent: dict[str, Any], refusal: Refusal) -> None:
    """In a batch they fail the whole batch."""
    await sns.rig.queue_subscription(await sns.topic())
    message = {"Message": "m", "MessageAttributes": {name: sent}}
    await sns.refuses(refusal, "Publish", TopicArn=TOPIC, **message)
    entries = [{"Id": "good", "Message": "m"}, {"Id": "bad", **message}]
    await sns.refuses(refusal, "PublishBatch", TopicArn=TOPIC, PublishBatchRequestEntries=entries)
    assert sns.rig.queue.take() == []
