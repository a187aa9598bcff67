"""Message attributes at Publish: AWS's errors, the stored form, and its size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cns.publishing.message_attributes import MessageAttributeValue, parse_attributes, publish_bytes
from cns_common.errors import RequestError


def text(data_type: str, value: str) -> MessageAttributeValue:
    return {"DataType": data_type, "StringValue": value}


@pytest.mark.spec("sns-attr.types", "sns-attr.binary", "sns-attr.array", "sns-attr.characters")
@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        (text("String", "blue"), ("String", "blue")),
        (text("String.Array", "not-json"), ("String.Array", "not-json")),  # checked only when filters look at it
        (text("String.colour", "blue"), ("String.colour", "blue")),
        (text("Number", "0001.23000"), ("Number", "0001.23000")),  # the spelling is kept
        (text("Number.int", "-7"), ("Number.int", "-7")),
        ({"DataType": "Binary", "BinaryValue": b"\x01\x02\x03"}, ("Binary", "AQID")),
        ({"DataType": "Binary.png", "BinaryValue": b"\x00"}, ("Binary.png", "AA==")),
        ({"DataType": "String", "StringValue": "a", "BinaryValue": b""}, ("String", "a")),
        ({"DataType": "Binary", "StringValue": "", "BinaryValue": b"a"}, ("Binary", "YQ==")),
        (text("String", "雪\t\r\n"), ("String", "雪\t\r\n")),
    ],
)
def test_what_is_kept(given_: MessageAttributeValue, kept: tuple[str, str]) -> None:
    assert parse_attributes({"n": given_}) == {"n": kept}


def test_many_attributes_keep_their_order() -> None:
    given_ = {f"AWS.n{i}": text("String", "v") for i in range(11, 0, -1)}
    assert list(parse_attributes(given_)) == list(given_)


TOO_LONG = "Length of message attribute name must be less than 256 bytes."
PREFIXES = "the set of supported type prefixes is Binary, Number, and String."


def strange(code: str) -> str:
    return (
        f"Invalid non-alphanumeric character '#x{code}' was found in the message attribute name. Can only include "
        "alphanumeric characters, hyphens, underscores, or dots."
    )


@pytest.mark.spec(
    "sns-attr.code",
    "sns-attr.name-characters",
    "sns-attr.name-length",
    "sns-attr.name-leading-dot",
    "sns-attr.name-trailing-dot",
    "sns-attr.name-dots",
)
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("a" * 256, TOO_LONG),
        ("é" * 128, TOO_LONG),
        ("a^b", strange("5E")),
        ("a b", strange("20")),
        ("雪", strange("96EA")),
        ("\ud800", strange("D800")),
        (".a", "Invalid message attribute name starting with character '.' was found."),
        ("a.", "Invalid message attribute name ending with character '.' was found."),
        (".", "Invalid message attribute name starting with character '.' was found."),
        ("a..b^", "Message attribute name can not have successive '.' character."),
        ("a^b..", "Invalid message attribute name ending with character '.' was found."),
        ("a^b..c", strange("5E")),
        ("a..b", "Message attribute name can not have successive '.' character."),
        ("", "The request must contain non-empty message attribute name."),
    ],
)
def test_names_refused(name: str, complaint: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_attributes({name: text("String", "v")})
    assert (refused.value.code, refused.value.message) == ("ParameterValueInvalid", complaint)


@pytest.mark.spec("sns-attr.name-characters", "sns-attr.name-length", "sns-attr.aws-names")
@pytest.mark.parametrize("name", ["a", "a.b-c_D.9", "AWS.SNS.MOBILE.APNS.TTL", "a" * 255])
def test_names_taken(name: str) -> None:
    assert parse_attributes({name: text("String", "v")}) == {name: ("String", "v")}


def empty(data_type: str) -> str:
    return (
        "The message attribute 'n' must contain non-empty message attribute value for message attribute type "
        f"'{data_type}'."
    )


def out_of_scale(number: str) -> str:
    return f"Message attribute 'n' number value [{number}] scale must be 10^-128 and 10^126."


def too_precise(number: str) -> str:
    return f"Message attribute 'n' number value [{number}] must have less than 38 precision digits."


NOT_A_NUMBER = "Could not cast message attribute 'n' value to number."
WRONG_TYPE = f"The message attribute 'n' has an invalid message attribute type, {PREFIXES}"


@pytest.mark.spec(
    "sns-attr.code",
    "sns-attr.type",
    "sns-attr.empty",
    "sns-attr.wrong-field",
    "sns-attr.number",
    "sns-attr.number-digits",
    "sns-attr.number-scale",
)
@pytest.mark.parametrize(
    ("given_", "complaint"),
    [
        (text("Text", "v"), WRONG_TYPE),
        (text("", "v"), WRONG_TYPE),
        (text("string", "v"), WRONG_TYPE),
        (text("Stringy", "v"), WRONG_TYPE),
        (text("String.", "v"), WRONG_TYPE),
        (text("String.\ud800", "v"), WRONG_TYPE),
        ({"DataType": "String"}, empty("String")),
        (text("String", ""), empty("String")),
        (text("Number.int", ""), empty("Number.int")),
        ({"DataType": "Binary", "BinaryValue": b""}, empty("Binary")),
        ({"DataType": "Binary"}, empty("Binary")),
        (
            {"DataType": "String", "BinaryValue": b"v"},
            "The message attribute 'n' with type 'String' must use field 'String'.",
        ),
        (
            {"DataType": "Number.x", "BinaryValue": b"v"},
            "The message attribute 'n' with type 'Number.x' must use field 'String'.",
        ),
        (text("Binary.x", "v"), "The message attribute 'n' with type 'Binary.x' must use field 'Binary'."),
        *((text("Number", number), NOT_A_NUMBER) for number in (
            "NaN", "Infinity", "ten", " 1", "1 ", "1_0", "-", ".", "e5", "1e", "1e+", "0x1", "١", "1,5", "--1",
            "1e" + "9" * 5000,
        )),
        *((text("Number", number), out_of_scale(number)) for number in (
            "1e126", "1e127", "-1e126", "1e-129", "0e-129", "0e126", "0e-100000", "10e125", "1e9999999999",
        )),
        *((text("Number", number), too_precise(number)) for number in (
            "1" * 39, "1" + "0" * 100, "1." + "0" * 38, "0.1" + "0" * 38,
        )),
    ],
)  # fmt: skip
def test_values_refused(given_: MessageAttributeValue, complaint: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_attributes({"n": given_})
    assert (refused.value.code, refused.value.message) == ("ParameterValueInvalid", complaint)


@pytest.mark.spec("sns-attr.number-spelling", "sns-attr.number-scale", "sns-attr.number-digits")
@pytest.mark.parametrize(
    "number",
    ["1", "-1", "+1", ".5", "5.", "-.5", "9.99e125", "1e-128", "1E3", "1e+3", "1e0003", "1e" + "0" * 5000 + "3", "0",
     "0.000", "0" * 300 + "1", "12345678901234567890123456789012345678"],
)  # fmt: skip
def test_numbers_taken(number: str) -> None:
    assert parse_attributes({"n": text("Number", number)}) == {"n": ("Number", number)}


@pytest.mark.spec("sns-attr.characters")
@pytest.mark.parametrize("value", ["native-error:雪🙂Z", "\x00", "\x1f", "\ufffe", "\ud800"])
@pytest.mark.parametrize("data_type", ["String", "String.Array", "String.x"])
def test_characters_refused(data_type: str, value: str) -> None:
    """Supplementary characters were seen refused on AWS; what XML cannot carry goes with them."""
    with pytest.raises(RequestError) as refused:
        parse_attributes({"ErrorMessage": text(data_type, value)})
    assert (refused.value.code, refused.value.message) == (
        "InvalidParameter",
        "Invalid parameter: Invalid attribute value was passed in for message attribute ErrorMessage",
    )


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (None, "messageAttributes.n.member.dataType"),
        (
            "publishBatchRequestEntries.2.member.messageAttributes",
            "publishBatchRequestEntries.2.member.messageAttributes.n.member.dataType",
        ),
    ],
)
def test_a_missing_type_is_a_validation_error(path: str | None, where: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_attributes({"n": {"StringValue": "v"}}, *([path] if path else []))
    assert refused.value.code == "ValidationError"
    assert refused.value.message == (
        f"1 validation error detected: Value null at '{where}' failed to satisfy constraint: Member must not be null"
    )


@pytest.mark.parametrize(
    ("message", "given_", "expected"),
    [
        ("abc", {}, 3),
        ("雪", {}, 3),
        ("🙂", {}, 4),
        ("abc", {"name": text("String", "雪")}, 3 + 4 + 6 + 3),
        ("abc", {"name": text("Number.x", "12")}, 3 + 4 + 8 + 2),
        *(("", {"n": {"DataType": "Binary", "BinaryValue": b"x" * size}}, 1 + 6 + size) for size in (1, 2, 3, 4)),
    ],
)
def test_what_counts_as_size(message: str, given_: dict[str, MessageAttributeValue], expected: int) -> None:
    assert publish_bytes(message, parse_attributes(given_)) == expected


@given(
    st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["a", "b.c"]),
        st.fixed_dictionaries(
            {},
            optional={
                "DataType": st.sampled_from(["String", "Number", "Binary", "String.Array", ""]) | st.text(max_size=3),
                "StringValue": st.text(max_size=5) | st.from_regex(r"[0-9.e+-]*"),
                "BinaryValue": st.binary(max_size=5),
            },
        ),
    )
)
def test_bad_input_raises_nothing_but_a_request_error(given_: dict[str, Any]) -> None:
    try:
        attributes = parse_attributes(given_)
    except RequestError:
        return
    assert publish_bytes("", attributes) >= 0
