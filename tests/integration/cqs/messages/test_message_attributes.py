"""Message attributes on the wire: which are accepted, how they come back, and the digests that SDKs compare."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cqs.door import Door
from tests.integration.cqs.sqs import Sqs
from tests.integration.cqs.sqs_wire import Refusal, Wire, Wires, invalid_value, legacy

spec = pytest.mark.spec

Members = dict[str, dict[str, Any]]


def string(value: str, data_type: str = "String") -> dict[str, Any]:
    return {"DataType": data_type, "StringValue": value}


def number(value: str, data_type: str = "Number") -> dict[str, Any]:
    return string(value, data_type)


def binary(value: bytes, data_type: str = "Binary") -> dict[str, Any]:
    return {"DataType": data_type, "BinaryValue": value}


TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
TRACE_ATTRIBUTE = {"AWSTraceHeader": string(TRACE)}
TRACE_MD5 = "5ae4d5d7636402d80f4eb6d213245a88"
COLOR = {"color": string("blue")}
COLOR_MD5 = "da1b33cc3cbfe8b1630921e78e6b9880"
THREE = COLOR | {"count": number("3"), "blob": binary(b"\x01\x02\x03")}
THREE_MD5 = "d838729972a4b70e2d2acd9d59ac847c"

BAD_NAME = invalid_value(
    "Message (user) attributes name can only contain upper and lower score characters, digits, periods, hyphens and "
    "underscores. "
)
NO_NAME = invalid_value("The request must contain non-empty message (user) attribute names.")
NOTHING = invalid_value("The message (user) attribute 'X' must contain a non-empty message attribute value.")
RESERVED = invalid_value(
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for internal "
    "use. Additionally, they cannot start or end with '.'."
)
DOT = invalid_value("Message (user) attribute names cannot start or end with '.'.")
TYPE = invalid_value(
    "The type of message (user) attribute 'x' is invalid. You must use only the following supported type prefixes: "
    "Binary, Number, String."
)
CHARACTERS = invalid_value(
    "Invalid characters found. Valid unicode characters are "
    "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
)
LISTS = legacy("UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported.")


def empty(data_type: str) -> Refusal:
    return invalid_value(f"Message (user) attribute 'X' must contain a non-empty value of type '{data_type}'.")


def digits(value: str) -> Refusal:
    text = f"Message (user) attribute 'n' number value [{value}] must contain fewer than 38 precision digits."
    return invalid_value(text)


def out_of_range(value: str) -> Refusal:
    text = f"Message (user) attribute 'n' number value [{value}] must be between 10^-128 and 10^126."
    return invalid_value(text)


@pytest.mark.parametrize(
    ("attributes", "refusal"),
    [
        pytest.param(
            {f"a{n}": string("v") for n in range(11)},
            invalid_value("Number of message attributes [11] exceeds the allowed maximum [10]."),
            marks=spec("attributes.ten"),
        ),
        pytest.param(
            {"x" * 257: string("v")},
            invalid_value("Message (user) attribute names must be shorter than 256 Bytes"),
            marks=spec("attributes.name-length"),
        ),
        pytest.param({"": string("v")}, NO_NAME, marks=spec("attributes.name-length")),
        *[pytest.param({name: string("v")}, BAD_NAME, marks=spec("attributes.name-form")) for name in ("a b", "a/b")],
        *[
            pytest.param({name: string("v")}, RESERVED, marks=spec("attributes.name-reserved"))
            for name in ("AWS.x", "aws.x", "Amazon.x", "AMAZON.x")
        ],
        *[pytest.param({name: string("v")}, DOT, marks=spec("attributes.name-dots")) for name in (".x", "x.")],
        *[
            pytest.param({"x": string("v", data_type)}, TYPE, marks=spec("attributes.type-unknown"))
            for data_type in ("Float", "string", "Stringy", " String")
        ],
        pytest.param(
            {"x": string("v", "String." + "a" * 250)},
            invalid_value("Message (user) attribute type must be shorter than 256 bytes."),
            marks=spec("attributes.type-length"),
        ),
        pytest.param({"X": {}}, NOTHING, marks=spec("attributes.value-empty")),
        pytest.param({"X": string("")}, empty("String"), marks=spec("attributes.value-empty")),
        pytest.param({"X": number("")}, empty("Number"), marks=spec("attributes.value-empty")),
        pytest.param({"X": binary(b"")}, empty("Binary"), marks=spec("attributes.value-empty")),
        pytest.param({"X": string("v", "Binary")}, empty("Binary"), marks=spec("attributes.value-of-its-type")),
        pytest.param({"X": binary(b"v", "String")}, empty("String"), marks=spec("attributes.value-of-its-type")),
        pytest.param({"X": string("a\x01b")}, CHARACTERS, marks=spec("attributes.value-characters")),
        pytest.param({"X": string("\uffff")}, CHARACTERS, marks=spec("attributes.value-characters")),
        *[
            pytest.param(
                {"n": number(value)},
                invalid_value("Can't cast the value of message (user) attribute 'n' to a number."),
                marks=spec("attributes.number-only"),
            )
            for value in ("abc", "1e", ".", "1,5", " 1", "0x1", "NaN", "Infinity", "\u0661", "1e9999999999", "--1")
        ],
        *[
            pytest.param({"n": number(value)}, digits(value), marks=spec("attributes.number-digits"))
            for value in ("1" * 39, "1." + "0" * 38 + "1")
        ],
        *[
            pytest.param({"n": number(value)}, out_of_range(value), marks=spec("attributes.number-range"))
            for value in ("1e126", "0e126", "-1e126", "1e-129", "1e999999999", "1" * 127)
        ],
        pytest.param(
            {"x": {"DataType": "String", "StringListValues": ["a"]}}, LISTS, marks=spec("attributes.no-lists")
        ),
        pytest.param(
            {"x": {"DataType": "StringList", "StringListValues": ["a"]}}, LISTS, marks=spec("attributes.no-lists")
        ),
        pytest.param(
            {"x": {"DataType": "Binary", "BinaryListValues": [b"a"]}}, LISTS, marks=spec("attributes.no-lists")
        ),
    ],
)
async def test_refused(sqs: Sqs, wires: Wires, attributes: Members, refusal: Refusal) -> None:
    url = await sqs.queue()
    await wires.refuses(refusal, "SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=attributes)
    assert await sqs.counts(url) == (0, 0, 0)


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({f"a{n}": string("v") for n in range(10)}, marks=spec("attributes.ten")),
        pytest.param({"x" * 256: string("v")}, marks=spec("attributes.name-length")),
        pytest.param({"aZ09_.-": string("v")}, marks=spec("attributes.name-form")),
        pytest.param({"gr\u00fc\u00dfe": string("v")}, marks=spec("attributes.name-letters")),
        pytest.param({"awsome": string("v"), "amazon": string("v")}, marks=spec("attributes.name-reserved")),
        pytest.param({"a..b": string("v"), "1": string("v")}, marks=spec("attributes.name-two-dots")),
        pytest.param(THREE, marks=spec("attributes.types")),
        pytest.param(
            {"s": string("v", "String.x"), "n": number("1", "Number.int"), "b": binary(b"\x00\xff", "Binary.jpg")},
            marks=spec("attributes.types"),
        ),
        pytest.param({"x": string("v", "String." + "a" * 249)}, marks=spec("attributes.type-length")),
        pytest.param({"tags": string('["a","b"]', "String.Array")}, marks=spec("attributes.string-array")),
        pytest.param({"n": number("1" * 38)}, marks=spec("attributes.number-digits")),
    ],
)
async def test_come_back_as_they_were_sent(sqs: Sqs, wire: Wire, attributes: Members) -> None:
    url = await sqs.queue()
    sent = await wire.send(url, MessageAttributes=attributes)
    (message,) = await wire.receive(url, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


@spec("digest.normalised-number")
async def test_digests_of_a_number_that_is_rewritten(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    sent = await wire.send(url, MessageAttributes={"numeric": number("0001.23000")})
    (message,) = await wire.receive(url, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == {"numeric": number("1.23")}
    assert sent["MD5OfMessageAttributes"] == "6c5cf70458f4f4b7b5cf18617bf23767"
    assert message["MD5OfMessageAttributes"] == "6177b725901df62acbb49a268fa56714"


@spec("digest.of-those-returned")
async def test_the_digest_of_a_receive_covers_returned_attributes(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await wire.send(url, MessageAttributes=THREE)
    digests = {}
    for name in ("All", "color", "absent"):
        (message,) = await wire.receive(url, MessageAttributeNames=[name], VisibilityTimeout=0)
        digests[name] = message.get("MD5OfMessageAttributes")
    assert digests == {"All": THREE_MD5, "color": COLOR_MD5, "absent": None}


@spec("digest.system", "attributes.trace-when-asked-for")
async def test_the_trace_header(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    sent = await wire.send(url, MessageSystemAttributes=TRACE_ATTRIBUTE, MessageAttributes=COLOR)
    assert sent["MD5OfMessageSystemAttributes"] == TRACE_MD5
    assert sent["MD5OfMessageAttributes"] == COLOR_MD5
    (message,) = await wire.receive(url, VisibilityTimeout=0)
    assert "Attributes" not in message
    (message,) = await wire.receive(url, MessageSystemAttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": TRACE}


@pytest.mark.parametrize(
    ("attributes", "refusal"),
    [
        pytest.param(
            {"Other": string("v")},
            invalid_value("Message system attribute name 'Other' is invalid."),
            marks=spec("attributes.system-names"),
        ),
        pytest.param(
            {"AWSTraceHeader": number("1")},
            invalid_value("The type of message system attribute 'AWSTraceHeader' must be String."),
            marks=spec("attributes.system-type"),
        ),
    ],
)
async def test_system_attributes_refused(sqs: Sqs, wires: Wires, attributes: Members, refusal: Refusal) -> None:
    url = await sqs.queue()
    await wires.refuses(refusal, "SendMessage", QueueUrl=url, MessageBody="x", MessageSystemAttributes=attributes)


@spec("attributes.trace-of-the-request", "digest.system-only-when-sent")
async def test_the_trace_header_of_a_request(door: Door) -> None:
    url = await door.queue()
    headers = {"x-amz-target": "AmazonSQS.SendMessage", "content-type": "application/x-amz-json-1.0"}
    body = b'{"QueueUrl":"%b","MessageBody":"x"}' % url.encode()
    sent = await door.signed("POST", "/", headers | {"x-amzn-trace-id": TRACE}, body)
    assert "MD5OfMessageSystemAttributes" not in sent.json()
    received = await door.json("ReceiveMessage", QueueUrl=url, AttributeNames=["AWSTraceHeader"])
    assert received.json()["Messages"][0]["Attributes"] == {"AWSTraceHeader": TRACE}
