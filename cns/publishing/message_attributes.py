"""Checks message attributes at Publish and counts their bytes.

Their number is not limited here: AWS refuses more than ten only when they become SQS attributes. The elements of a
String.Array are not checked, and a Number is kept as written: SQS normalises it on raw delivery.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import NoReturn, TypedDict

from cns.notification import Attributes
from cns_common.errors import RequestError

NAME_BYTES_MAX = 255
NUMBER_DIGITS_MAX = 38
NUMBER_EXPONENTS = range(-128, 126)  # of the leading digit: 1e126 is out, 9.99e125 is in

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NAME_CHARACTER = re.compile(r"[A-Za-z0-9_.-]")
_TYPE = re.compile("(String|Number|Binary)(\\.[^\ud800-\udfff]+)?")
_NUMBER = re.compile(
    r"[+-]?(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?:[eE](?P<sign>[+-]?)0*(?P<exponent>[0-9]{1,10}))?"
)
# XML 1.0 without the supplementary planes, which SNS refuses in attributes though it takes them in messages.
_NOT_IN_VALUE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]")


class MessageAttributeValue(TypedDict, total=False):
    """One attribute as the protocol parsed it."""

    DataType: str
    StringValue: str
    BinaryValue: bytes


def parse_attributes(given: Mapping[str, MessageAttributeValue], path: str = "messageAttributes") -> Attributes:
    """Check the attributes and return them in stored form. `path` names them in the error about a missing type."""
    return {name: _attribute(name, value, path) for name, value in given.items()}


def publish_bytes(message: str, attributes: Attributes) -> int:
    """Size that counts against the topic's MaximumMessageSize."""
    return len(message.encode()) + sum(
        len(name) + len(data_type.encode()) + _value_bytes(data_type, text)
        for name, (data_type, text) in attributes.items()
    )


def _attribute(name: str, value: MessageAttributeValue, path: str) -> tuple[str, str]:
    _check_name(name)
    data_type = value.get("DataType")
    if data_type is None:
        raise RequestError(
            "ValidationError",
            f"1 validation error detected: Value null at '{path}.{name}.member.dataType' failed to satisfy constraint: "
            "Member must not be null",
        )
    matched = _TYPE.fullmatch(data_type)
    if matched is None:
        _refuse(
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type prefixes "
            "is Binary, Number, and String."
        )
    if matched[1] == "Binary":
        return data_type, b64encode(_binary(name, data_type, value)).decode("ascii")
    text = _string(name, data_type, value)
    if matched[1] == "Number":
        _check_number(name, text)
    elif _NOT_IN_VALUE.search(text):
        raise RequestError(
            "InvalidParameter",
            f"Invalid parameter: Invalid attribute value was passed in for message attribute {name}",
        )
    return data_type, text


def _check_name(name: str) -> None:
    if len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
        _refuse("Length of message attribute name must be less than 256 bytes.")
    if not _NAME.fullmatch(name):
        _refuse(_name_complaint(name))


def _name_complaint(name: str) -> str:
    """The error text for an invalid name: its first fault."""
    if not name:
        return "The request must contain non-empty message attribute name."
    if name.startswith("."):
        return "Invalid message attribute name starting with character '.' was found."
    if name.endswith("."):
        return "Invalid message attribute name ending with character '.' was found."
    before_dots = name.partition("..")[0]
    for character in before_dots:
        if not _NAME_CHARACTER.match(character):
            return (
                f"Invalid non-alphanumeric character '#x{ord(character):X}' was found in the message attribute name. "
                "Can only include alphanumeric characters, hyphens, underscores, or dots."
            )
    return "Message attribute name can not have successive '.' character."


def _string(name: str, data_type: str, value: MessageAttributeValue) -> str:
    """A second value field is ignored: some SDKs send both, one of them empty."""
    if "StringValue" not in value:
        _refuse_field(name, data_type, "String", missing="BinaryValue" not in value)
    return value["StringValue"] or _refuse_empty(name, data_type)


def _binary(name: str, data_type: str, value: MessageAttributeValue) -> bytes:
    if "BinaryValue" not in value:
        _refuse_field(name, data_type, "Binary", missing="StringValue" not in value)
    return value["BinaryValue"] or _refuse_empty(name, data_type)


def _check_number(name: str, text: str) -> None:
    matched = _NUMBER.fullmatch(text)
    whole, fraction = (matched["whole"], matched["fraction"] or "") if matched else ("", "")
    if matched is None or not whole + fraction:
        _refuse(f"Could not cast message attribute '{name}' value to number.")
    digits = (whole + fraction).lstrip("0") or "0"
    if len(digits) > NUMBER_DIGITS_MAX:  # trailing zeros count, leading ones do not
        _refuse(f"Message attribute '{name}' number value [{text}] must have less than 38 precision digits.")
    exponent = int(f"{matched['sign'] or ''}{matched['exponent'] or 0}")
    if len(digits) - 1 - len(fraction) + exponent not in NUMBER_EXPONENTS:
        _refuse(f"Message attribute '{name}' number value [{text}] scale must be 10^-128 and 10^126.")


def _value_bytes(data_type: str, text: str) -> int:
    if data_type.startswith("Binary"):
        return len(text) // 4 * 3 - text.count("=")
    return len(text.encode())


def _refuse_field(name: str, data_type: str, field: str, *, missing: bool) -> NoReturn:
    if missing:
        _refuse_empty(name, data_type)
    _refuse(f"The message attribute '{name}' with type '{data_type}' must use field '{field}'.")


def _refuse_empty(name: str, data_type: str) -> NoReturn:
    _refuse(
        f"The message attribute '{name}' must contain non-empty message attribute value for message attribute type "
        f"'{data_type}'."
    )


def _refuse(complaint: str) -> NoReturn:
    raise RequestError("ParameterValueInvalid", complaint)
