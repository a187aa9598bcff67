"""Queue attributes on the wire: accepted values, defaults, and the messages that a change applies to."""

from __future__ import annotations

import json

import pytest

from tests.integration.cqs.sqs import ACCOUNT, Sqs
from tests.integration.cqs.sqs_wire import Refusal, Wire, modelled

spec = pytest.mark.spec
ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:q"
POLICY = json.dumps({"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}})
FIFO = {"FifoQueue": "true"}
DEFAULTS = {
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "QueueArn": ARN,
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
FIFO_DEFAULTS = {
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoQueue": "true",
    "FifoThroughputLimit": "perQueue",
    "QueueArn": f"{ARN}.fifo",
}


def bad_value(name: str, more: str = "") -> Refusal:
    return modelled("InvalidAttributeValue", f"Invalid value for the parameter {name}.{more}")


def bad_name(text: str) -> Refusal:
    return modelled("InvalidAttributeName", text)


def unknown(name: str) -> Refusal:
    return bad_name(f"Unknown Attribute {name}.")


async def created(wire: Wire, fifo: bool = False, /, **attributes: str) -> dict[str, str]:
    """The QueueUrl of a new queue, as a member."""
    name, given = ("q.fifo", FIFO | attributes) if fifo else ("q", attributes)
    url: str = (await wire("CreateQueue", QueueName=name, Attributes=given))["QueueUrl"]
    return {"QueueUrl": url}


async def shown(wire: Wire, queue: dict[str, str], *names: str) -> dict[str, str]:
    answer = await wire("GetQueueAttributes", **queue, AttributeNames=[*names])
    return dict(answer.get("Attributes", {}))


# -- shown ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fifo", "expected"),
    [
        pytest.param(False, DEFAULTS, marks=spec("attribute.all", "name.arn")),
        pytest.param(True, DEFAULTS | FIFO_DEFAULTS, marks=spec("attribute.all-fifo")),
    ],
)
async def test_all_of_a_fresh_queue(wire: Wire, fifo: bool, expected: dict[str, str]) -> None:
    attributes = await shown(wire, await created(wire, fifo), "All")
    times = {attributes.pop("CreatedTimestamp"), attributes.pop("LastModifiedTimestamp")}
    assert len(times) == 1
    assert attributes == expected


@spec("attribute.none-asked")
async def test_no_names_no_attributes(wire: Wire) -> None:
    queue = await created(wire)
    assert await wire("GetQueueAttributes", **queue) == {}
    assert await wire("GetQueueAttributes", **queue, AttributeNames=[]) == {}


@spec("attribute.unknown-asked")
async def test_an_unknown_name(wire: Wire) -> None:
    queue = await created(wire)
    await wire.refuses(unknown("Nonsense"), "GetQueueAttributes", **queue, AttributeNames=["All", "Nonsense"])


# -- set --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fifo", "name", "given", "kept"),
    [
        (False, "SqsManagedSseEnabled", "TRUE", "true"),
        (True, "DeduplicationScope", "messageGroup", "messageGroup"),
        (False, "Policy", POLICY, POLICY),
        pytest.param(True, "FifoQueue", "True", "true", marks=spec("attribute.fifo-again")),
    ],
)
@spec("policy.resource-kept")
async def test_values_taken(wire: Wire, fifo: bool, name: str, given: str, kept: str) -> None:
    """tests/unit/cqs has each attribute."""
    queue = await created(wire, fifo)
    await wire("SetQueueAttributes", **queue, Attributes={name: given})
    assert await shown(wire, queue, name) == {name: kept}


@spec("attribute.FifoThroughputLimit", "attribute.throughput-needs-scope")
async def test_throughput_per_group(wire: Wire) -> None:
    queue = await created(wire, True)
    alone = {"FifoThroughputLimit": "perMessageGroupId"}
    text = (
        "Invalid value for the parameter FifoThroughputLimit. Reason: To set FifoThroughputLimit to perMessageGroupId, "
        "the DeduplicationScope must be messageGroup."
    )
    await wire.refuses(modelled("InvalidAttributeValue", text), "SetQueueAttributes", **queue, Attributes=alone)
    await wire("SetQueueAttributes", **queue, Attributes=alone | {"DeduplicationScope": "messageGroup"})
    assert await shown(wire, queue, "FifoThroughputLimit") == alone


@pytest.mark.parametrize(
    ("name", "value", "refusal"),
    [
        ("DelaySeconds", "901", bad_value("DelaySeconds")),
        pytest.param("QueueArn", "1", unknown("QueueArn"), marks=spec("attribute.read-only")),
        pytest.param("FifoQueue", "true", unknown("FifoQueue"), marks=spec("attribute.fifo-of-standard")),
        (
            "DeduplicationScope",
            "queue",
            bad_name("You can specify the DeduplicationScope only when FifoQueue is set to true."),
        ),
    ],
)
async def test_values_refused(wire: Wire, name: str, value: str, refusal: Refusal) -> None:
    queue = await created(wire)
    await wire.refuses(refusal, "SetQueueAttributes", **queue, Attributes={name: value})
    if name != "FifoQueue":  # at creation the queue's name says it
        await wire.refuses(refusal, "CreateQueue", QueueName="r", Attributes={name: value})


@spec("attribute.fifo-no-more")
async def test_a_queue_keeps_its_type(wire: Wire) -> None:
    queue = await created(wire, True)
    refusal = bad_value("FifoQueue", " Reason: Modifying queue type is not supported.")
    await wire.refuses(refusal, "SetQueueAttributes", **queue, Attributes={"FifoQueue": "false"})


@spec("attribute.partial", "attribute.all-or-nothing", "attribute.modified")
async def test_a_change_affects_only_named_attributes(wire: Wire, sqs: Sqs) -> None:
    queue = await created(wire, DelaySeconds="5")
    before = await shown(wire, queue, "All")
    sqs.advance(10)
    await wire.refuses(
        bad_value("DelaySeconds"),
        "SetQueueAttributes",
        **queue,
        Attributes={"VisibilityTimeout": "9", "DelaySeconds": "x"},
    )
    assert await shown(wire, queue, "All") == before
    await wire("SetQueueAttributes", **queue, Attributes={"VisibilityTimeout": "9"})
    after = await shown(wire, queue, "All")
    assert int(after["LastModifiedTimestamp"]) - int(before["LastModifiedTimestamp"]) in (10, 11)
    modified = {"LastModifiedTimestamp": after["LastModifiedTimestamp"]}
    assert after == before | {"VisibilityTimeout": "9"} | modified


REMOVABLE = {
    "Policy": (POLICY, "policy-removed"),
    "RedrivePolicy": (json.dumps({"deadLetterTargetArn": ARN, "maxReceiveCount": 3}), "redrive-removed"),
    "RedriveAllowPolicy": ('{"redrivePermission":"denyAll"}', "redrive-allow-removed"),
    "KmsMasterKeyId": ("alias/aws/sqs", "kms-key-removed"),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, value, marks=spec(f"attribute.{rule}")) for name, (value, rule) in REMOVABLE.items()],
)
async def test_an_empty_text_removes_an_attribute(wire: Wire, name: str, value: str) -> None:
    queue = await created(wire)
    assert name not in await shown(wire, queue, "All")
    await wire("SetQueueAttributes", **queue, Attributes={name: value})
    assert name in await shown(wire, queue, "All")
    await wire("SetQueueAttributes", **queue, Attributes={name: ""})
    assert name not in await shown(wire, queue, "All")


# -- encryption -------------------------------------------------------------------------------------------------------


@spec("attribute.kms-key", "attribute.kms-period-shown")
async def test_a_key_is_the_one_encryption(wire: Wire) -> None:
    queue = await created(wire)
    assert await shown(wire, queue, "KmsDataKeyReusePeriodSeconds") == {}
    await wire("SetQueueAttributes", **queue, Attributes={"KmsMasterKeyId": "alias/aws/sqs"})
    names = ("KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "SqsManagedSseEnabled")
    assert await shown(wire, queue, *names) == dict(zip(names, ("300", "alias/aws/sqs", "false"), strict=True))


@spec("attribute.kms-period-shown", "attribute.KmsDataKeyReusePeriodSeconds")
@pytest.mark.parametrize("seconds", ["60", "86400"])
async def test_a_reuse_period_is_returned_only_with_a_key(wire: Wire, seconds: str) -> None:
    period = {"KmsDataKeyReusePeriodSeconds": seconds}
    queue = await created(wire, **period)
    assert await shown(wire, queue, *period) == {}
    assert period.keys().isdisjoint(await shown(wire, queue, "All"))
    await wire("SetQueueAttributes", **queue, Attributes={"KmsMasterKeyId": "alias/aws/sqs"})
    assert await shown(wire, queue, *period) == period
    await wire("SetQueueAttributes", **queue, Attributes={"KmsMasterKeyId": ""})
    assert await shown(wire, queue, *period) == {}


@spec("attribute.one-encryption")
async def test_two_kinds_of_encryption(wire: Wire) -> None:
    both = {"KmsMasterKeyId": "alias/aws/sqs", "SqsManagedSseEnabled": "true"}
    text = "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
    await wire.refuses(bad_name(text), "SetQueueAttributes", **await created(wire), Attributes=both)
    await wire.refuses(bad_name(text), "CreateQueue", QueueName="r", Attributes=both)
