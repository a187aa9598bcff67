"""Message attributes: validation, stored numbers, and the digests that SDKs compare."""

from __future__ import annotations

from typing import Any

import pytest

from cns_common.errors import RequestError
from cqs.messages.message_attributes import normalize_number, read_attributes

Members = dict[str, dict[str, Any]]


def string(value: str, data_type: str = "String") -> dict[str, Any]:
    return {"DataType": data_type, "StringValue": value}


def number(value: str, data_type: str = "Number") -> dict[str, Any]:
    return string(value, data_type)


def binary(value: bytes) -> dict[str, Any]:
    return {"DataType": "Binary", "BinaryValue": value}


DIGESTS: list[tuple[Members, str]] = [
    (
        {"color": string("blue"), "count": number("3"), "blob": binary(b"\x01\x02\x03")},
        "d838729972a4b70e2d2acd9d59ac847c",
    ),
    ({"color": string("blue")}, "da1b33cc3cbfe8b1630921e78e6b9880"),
    (
        {"tags": string('["a","b"]', "String.Array"), "color": string("blue")},
        "56a5bee3ed610a27fd04b2b195aee70b",
    ),
    ({"timestamp": number("1493147359900")}, "235c5c510d26fb653d073faed50ae77c"),
    ({"attr1": number("19.12")}, "1f07082409022a373fa2a2601f82b3cb"),
    ({"attr2": number("109.12"), "attr1": number("99.12")}, "9b720b3af309c1c4b0d395c53b08c502"),
    (
        {"Hello": string("There"), "General": string("Kenobi"), "Help.Me": string("Me")},
        "4c360f3fdafd970e05fae2f149d997f5",
    ),
    ({"testname": binary(b"123")}, "4969dd151b0a6c8b619ebb802f76e035"),
    ({"numeric": number("0001.23000")}, "6c5cf70458f4f4b7b5cf18617bf23767"),
    ({"numeric": number("1.23")}, "6177b725901df62acbb49a268fa56714"),
    (
        {"timestamp": number("1493147359900", "Number.java.lang.Long")},
        "2e2e4876d8e0bd6b8c2c8f556831c349",
    ),
]


@pytest.mark.spec(
    "digest.three-types",
    "digest.string",
    "digest.string-array",
    "digest.number",
    "digest.fraction",
    "digest.two-numbers",
    "digest.byte-order",
    "digest.binary",
    "digest.labelled-number",
    "digest.normalised-number",
)
@pytest.mark.parametrize(("members", "expected"), DIGESTS)
def test_digest(members: Members, expected: str) -> None:
    assert read_attributes(members).sent_md5 == expected


@pytest.mark.spec("attributes.number-normalised", "attributes.number-digits", "attributes.number-range")
@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("0001.23000", "1.23"),
        ("1e3", "1000"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-0.000", "0"),
        ("+7", "7"),
        ("-1.50E-2", "-0.015"),
        ("120", "120"),
        ("1.20e1", "12"),
        ("0e125", "0"),
        ("9.99e125", "999" + "0" * 123),
        ("1e-128", "0." + "0" * 127 + "1"),
        ("1" * 38, "1" * 38),
        ("1" + "0" * 60, "1" + "0" * 60),
    ],
)
def test_number(text: str, normal: str) -> None:
    assert normalize_number("n", text) == normal


TYPE = (
    "The type of message (user) attribute 'x' is invalid. You must use only the following supported type prefixes: "
    "Binary, Number, String."
)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"x": {"StringValue": "v"}}, TYPE),
        ({"x": string("v", "String.\x01")}, "Invalid characters"),
        ({"X": string("\ud800")}, "Invalid characters"),
        ({"\ud800": string("v")}, "Message (user) attributes name can only contain"),
    ],
)
def test_refused(members: Members, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_attributes(members)
    assert caught.value.code == "InvalidParameterValue"
    assert caught.value.message.startswith(text)


def test_size_counts_name_type_and_value() -> None:
    attributes = read_attributes({"n\u00fc": string("v\u00fc", "String.x"), "b": binary(b"1234")})
    assert attributes.size == (1 + 6 + 4) + (3 + 8 + 3)
