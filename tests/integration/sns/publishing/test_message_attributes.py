"""Message attributes at Publish and PublishBatch, through botocore."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, REGION
from tests.integration.sns.sns_door import Refusal, SnsDoor, bad_attribute, invalid
from tests.marks import case

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


@spec("sns.message-attributes", "sns.batch-entries", "sns-attr.types", "sns-attr.binary")
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (text("String.Array.x", "雪\t\n"), ("String.Array.x", "雪\t\n")),
        (text("Number.int", "0001.2300"), ("Number.int", "0001.2300")),
        (binary("Binary", b"\x00\xff"), ("Binary", "AP8=")),
    ],
)
async def test_accepted_attributes(
    sns: SnsDoor, topic: str, sent: dict[str, Any], stored: tuple[str, str], batch: bool
) -> None:
    assert await stored_attributes(sns, {"n": sent}, batch=batch) == {"n": stored}


@spec("sns-attr.count")
async def test_many_attributes_are_accepted(sns: SnsDoor, topic: str) -> None:
    many = {f"n{number}": text("String", "v") for number in range(30)}
    assert (await stored_attributes(sns, many, batch=False)).keys() == many.keys()


@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        case(
            ("sns-attr.code", "sns-batch.bad-attribute", "sns-error.ParameterValueInvalid"),
            text("String", ""),
            bad_attribute(
                "The message attribute 'n' must contain non-empty message attribute value for message attribute type "
                "'String'."
            ),
        ),
        case(
            ("sns-attr.characters", "sns-attr.characters-batch"),
            text("String", "native-error:🙂"),
            invalid("Invalid attribute value was passed in for message attribute n"),
        ),
    ],
)
async def test_attributes_refused(sns: SnsDoor, topic: str, sent: dict[str, Any], refusal: Refusal) -> None:
    """In a batch they fail the whole batch."""
    message = {"Message": "m", "MessageAttributes": {"n": sent}}
    await sns.refuses(refusal, "Publish", TopicArn=TOPIC, **message)
    entries = [{"Id": "good", "Message": "m"}, {"Id": "bad", **message}]
    await sns.refuses(refusal, "PublishBatch", TopicArn=TOPIC, PublishBatchRequestEntries=entries)
    assert sns.rig.queue.take() == []
