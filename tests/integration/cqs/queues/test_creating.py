"""Queues on the wire: names, repeated creation, finding and listing, missing parameters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.integration.cqs.door import STRANGER, Door
from tests.integration.cqs.sqs import ACCOUNT, Sqs, refused
from tests.integration.cqs.sqs_wire import SQS, Refusal, Wire, Wires, invalid_value, legacy, missing, modelled

spec = pytest.mark.spec
CANNOT = invalid_value("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
CANNOT_FIFO = invalid_value(
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo "
    "suffix and be 1 to 80 in length."
)
NO_NAME = invalid_value("Value for parameter QueueName is invalid. Reason: Must specify a queue name.")
FIFO = {"FifoQueue": "true"}
RECENT = legacy(
    "QueueDeletedRecently",
    "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
)


def absent(wire: Wire) -> Refusal:
    text = "The specified queue does not exist" + ("." if wire.protocol == "json" else " for this wsdl version.")
    return Refusal(400, "AWS.SimpleQueueService.NonExistentQueue", f"{SQS}QueueDoesNotExist", text)


def different(attribute: str) -> Refusal:
    text = f"A queue already exists with the same name and a different value for attribute {attribute}"
    return Refusal(400, "QueueAlreadyExists", f"{SQS}QueueNameExists", text)


async def made(wire: Wire, name: str = "q", **attributes: str) -> str:
    url: str = (await wire("CreateQueue", QueueName=name, Attributes=attributes))["QueueUrl"]
    return url


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        *(pytest.param(name, {}, marks=spec("name.characters")) for name in ("q", "0", "_-", "Az09_-" * 13 + "ab")),
        *(pytest.param(f"{stem}.fifo", FIFO, marks=spec("name.fifo")) for stem in ("q", "f" * 75)),
    ],
)
async def test_names(wire: Wire, door: Door, name: str, attributes: dict[str, str]) -> None:
    url = f"{door.url}/{ACCOUNT}/{name}"
    assert await wire("CreateQueue", QueueName=name, Attributes=attributes) == {"QueueUrl": url}
    assert await wire("GetQueueUrl", QueueName=name) == {"QueueUrl": url}


@pytest.mark.parametrize(
    ("name", "attributes", "refusal"),
    [
        *(
            pytest.param(name, {}, CANNOT, marks=spec("name.characters"))
            for name in ("a b", "grün", "a.b", "a/b", "q\n", "a" * 81)
        ),
        *(pytest.param(name, {}, CANNOT, marks=spec("name.suffix-alone")) for name in ("q.fifo", ".fifo")),
        pytest.param("q.fifo", {"FifoQueue": "false"}, CANNOT, marks=spec("name.suffix-alone")),
        pytest.param("q", FIFO, CANNOT_FIFO, marks=spec("name.fifo-without-suffix")),
        *(
            pytest.param(name, FIFO, CANNOT_FIFO, marks=spec("name.fifo"))
            for name in ("f" * 76 + ".fifo", ".fifo", "a b.fifo")
        ),
        pytest.param(
            "q",
            {"FifoQueue": "false"},
            modelled("InvalidAttributeName", "Unknown Attribute FifoQueue."),
            marks=spec("name.fifo-false"),
        ),
        pytest.param(None, {}, NO_NAME, marks=spec("name.missing")),
        pytest.param("", {}, invalid_value("Queue name cannot be empty"), marks=spec("name.missing")),
    ],
)
async def test_names_refused(wires: Wires, name: str | None, attributes: dict[str, str], refusal: Refusal) -> None:
    members = {"QueueName": name, "Attributes": attributes}
    await wires.refuses(refusal, "CreateQueue", **{key: value for key, value in members.items() if value is not None})


@spec("name.case", "queue.get-url-absent")
async def test_names_differ_by_case(wire: Wire) -> None:
    first = await made(wire, "Queue")
    await wire.refuses(absent(wire), "GetQueueUrl", QueueName="queue")
    assert await made(wire, "queue") != first


@spec("name.url")
@pytest.mark.parametrize("host", ["localhost:6059", "queues.example.org"])
async def test_a_url_has_the_host_of_the_request(door: Door, host: str) -> None:
    parameters = {"QueueName": "q", "Action": "CreateQueue", "Version": "2012-11-05"}
    asked = "&".join(f"{name}={value}" for name, value in parameters.items())
    reply = await door.signed("GET", "/", {"host": host}, query=asked)
    assert reply.texts("CreateQueueResult/QueueUrl") == [f"http://{host}/{ACCOUNT}/q"]


# -- creating again ---------------------------------------------------------------------------------------------------


@spec("create.again", "create.at-once", "queue.create-output")
async def test_the_same_queue_again(wire: Wire) -> None:
    url = await made(wire, DelaySeconds="5")
    await wire.send(url)
    assert await made(wire) == url
    assert await made(wire, DelaySeconds="5") == url
    assert await made(wire, DelaySeconds="05") == url


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        pytest.param({"DelaySeconds": "6"}, "DelaySeconds", marks=spec("create.again-different")),
        pytest.param({"VisibilityTimeout": "31"}, "VisibilityTimeout", marks=spec("create.again-default")),
        pytest.param(
            {"DelaySeconds": "5", "MaximumMessageSize": "1024", "VisibilityTimeout": "31"},
            "MaximumMessageSize",
            marks=spec("create.again-first-difference"),
        ),
        pytest.param({"Policy": ""}, None, marks=spec("create.again-default")),
        pytest.param({"VisibilityTimeout": "30", "DelaySeconds": "5"}, None, marks=spec("create.again-default")),
    ],
)
async def test_a_different_queue_of_the_name(wire: Wire, attributes: dict[str, str], told: str | None) -> None:
    url = await made(wire, DelaySeconds="5")
    if told is None:
        assert await made(wire, **attributes) == url
    else:
        await wire.refuses(different(told), "CreateQueue", QueueName="q", Attributes=attributes)


@spec("create.again-current", "attribute.at-once")
async def test_a_repeated_creation_is_compared_with_present_attributes(wire: Wire) -> None:
    url = await made(wire, DelaySeconds="5")
    await wire("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "6"})
    assert await made(wire, DelaySeconds="6") == url
    await wire.refuses(different("DelaySeconds"), "CreateQueue", QueueName="q", Attributes={"DelaySeconds": "5"})


@spec("create.again-tags", "create.again-counts", "queue.create-output")
async def test_tags_and_counts_are_not_compared(wire: Wire) -> None:
    made_once = await wire("CreateQueue", QueueName="q", tags={"a": "1"})
    await wire.send(made_once["QueueUrl"])
    assert await wire("CreateQueue", QueueName="q", tags={"a": "2", "b": "3"}) == made_once
    assert await wire("ListQueueTags", **made_once) == {"Tags": {"a": "1"}}


@spec("create.deleted-recently", "queue.delete", "queue.delete-absent")
async def test_a_name_rests_for_a_minute(wire: Wire, sqs: Sqs) -> None:
    url = await made(wire)
    await wire.send(url)
    (held,) = await wire.receive(url)
    assert await wire("DeleteQueue", QueueUrl=url) == {}
    await wire.refuses(absent(wire), "ReceiveMessage", QueueUrl=url)
    await wire.refuses(absent(wire), "DeleteQueue", QueueUrl=url)
    sqs.advance(59)
    await wire.refuses(RECENT, "CreateQueue", QueueName="q")
    sqs.advance(1)
    assert await made(wire) == url
    assert await wire.receive(url) == []
    assert (await refused(sqs.delete(url, held)))[0] == "ReceiptHandleIsInvalid"


@spec("create.order-of-checks")
async def test_the_order_of_the_checks(wire: Wire) -> None:
    wrong = {"DelaySeconds": "x"}
    await wire.refuses(CANNOT, "CreateQueue", QueueName="a b", Attributes=wrong, tags={"": "x"})
    url = await made(wire)
    await wire.refuses(different("DelaySeconds"), "CreateQueue", QueueName="q", Attributes={"DelaySeconds": "1"})
    await wire("DeleteQueue", QueueUrl=url)
    await wire.refuses(RECENT, "CreateQueue", QueueName="q", Attributes=wrong)


# -- finding and listing ----------------------------------------------------------------------------------------------


@spec("queue.get-url-output")
async def test_an_owner_may_be_named(wire: Wire) -> None:
    url = await made(wire)
    assert await wire("GetQueueUrl", QueueName="q", QueueOwnerAWSAccountId=ACCOUNT) == {"QueueUrl": url}
    await wire.refuses(absent(wire), "GetQueueUrl", QueueName="q", QueueOwnerAWSAccountId="cns")


@spec("queue.get-url-no-name")
async def test_no_name(wires: Wires) -> None:
    await wires.refuses(NO_NAME, "GetQueueUrl")


@spec("queue.list-prefix")
async def test_a_prefix(wire: Wire) -> None:
    urls = [await made(wire, name) for name in ("a", "b-1", "b-2", "c")]
    assert await wire("ListQueues", QueueNamePrefix="b-") == {"QueueUrls": urls[1:3]}
    assert await wire("ListQueues", QueueNamePrefix="B-") == {}


@spec("queue.list-pages")
async def test_pages(wire: Wire) -> None:
    urls = [await made(wire, name) for name in "abcde"]
    first = await wire("ListQueues", MaxResults=2)
    second = await wire("ListQueues", MaxResults=2, NextToken=first["NextToken"])
    last = await wire("ListQueues", MaxResults=2, NextToken=second["NextToken"])
    assert [page["QueueUrls"] for page in (first, second, last)] == [urls[:2], urls[2:4], urls[4:]]
    assert "NextToken" not in last


@spec("queue.list-all")
async def test_a_thousand_without_pages(sqs: Sqs, door: Door) -> None:
    await asyncio.gather(*[sqs("CreateQueue", QueueName=f"q-{n:04}") for n in range(1_001)])
    answer = (await door.json("ListQueues")).json()
    assert [*answer] == ["QueueUrls"]
    assert len(answer["QueueUrls"]) == 1_000
    assert await sqs("ListQueues", QueueNamePrefix="\ud800") == {}


@spec("queue.dead-letter-sources", "redrive.sources-listed")
async def test_sources_of_dead_letters(wire: Wire) -> None:
    dead = await made(wire, "dead")
    assert await wire("ListDeadLetterSourceQueues", QueueUrl=dead) == {}
    arn = (await wire("GetQueueAttributes", QueueUrl=dead, AttributeNames=["QueueArn"]))["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
    urls = [await made(wire, name, RedrivePolicy=redrive) for name in "abc"]
    await made(wire, "other")
    assert await wire("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": urls}
    first = await wire("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2)
    rest = await wire("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2, NextToken=first["NextToken"])
    assert (first["queueUrls"], rest) == (urls[:2], {"queueUrls": urls[2:]})
    await wire("SetQueueAttributes", QueueUrl=urls[0], Attributes={"RedrivePolicy": ""})
    await wire("DeleteQueue", QueueUrl=urls[1])
    assert await wire("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": urls[2:]}


@spec("queue.list-region", "queue.own-account-only")
async def test_lists_have_only_own_queues(door: Door) -> None:
    here = await door.queue("here")
    there = await door.query("CreateQueue", {"QueueName": "there"}, region="eu-west-1")
    await door.json("CreateQueue", QueueName="another's", key=STRANGER)
    theirs = (await door.json("CreateQueue", QueueName="theirs", key=STRANGER)).json()["QueueUrl"]
    assert there.status == 200
    assert (await door.query("GetQueueUrl", {"QueueName": "here"}, region="eu-west-1")).status == 400
    assert (await door.json("ListQueues")).json() == {"QueueUrls": [here]}
    assert (await door.query("ListQueues", region="eu-west-1")).texts("ListQueuesResult/QueueUrl") == there.texts(
        "CreateQueueResult/QueueUrl"
    )
    assert (await door.json("ListQueues", key=STRANGER)).json() == {"QueueUrls": [theirs]}


@pytest.mark.parametrize(
    ("members", "refusal"),
    [
        *(
            pytest.param(
                {"MaxResults": n},
                invalid_value(
                    "Value for parameter MaxResults is invalid. "
                    "Reason: MaxResults must be an integer between 1 and 1000."
                ),
                marks=spec("queue.list-max-results"),
            )
            for n in (0, -1, 1_001)
        ),
        *(
            pytest.param(
                {"NextToken": token}, invalid_value("Invalid or expired next token."), marks=spec("queue.list-token")
            )
            for token in ("garbage!", "/w==")
        ),
    ],
)
async def test_pages_refused(wire: Wire, members: dict[str, Any], refusal: Refusal) -> None:
    url = await made(wire)
    await wire.refuses(refusal, "ListQueues", **members)
    await wire.refuses(refusal, "ListDeadLetterSourceQueues", QueueUrl=url, **members)


# -- what is missing --------------------------------------------------------------------------------------------------


@spec("queue.missing-parameter")
@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("SetQueueAttributes", "Attribute.Name"),
        pytest.param("TagQueue", "Tags", marks=spec("tag.none-given")),
        ("UntagQueue", "TagKeys"),
        ("AddPermission", "Label"),
        ("RemovePermission", "Label"),
        ("DeleteMessage", "ReceiptHandle"),
        ("ChangeMessageVisibility", "ReceiptHandle"),
        ("SendMessage", "MessageBody"),
    ],
)
async def test_missing_parameters(wire: Wire, action: str, name: str) -> None:
    await wire.refuses(missing(name), action, QueueUrl=await made(wire))
