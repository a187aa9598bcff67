"""Message attributes: validation, their stored form, and their MD5 digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from cns_common.errors import RequestError
from cqs.limits import (
    ATTRIBUTE_NAME_CHARS_MAX,
    MESSAGE_ATTRIBUTES_MAX,
    NUMBER_DIGITS_MAX,
    NUMBER_EXPONENT_MAX,
    NUMBER_EXPONENT_MIN,
)
from cqs.messages.message_text import encode_text

TRACE_HEADER = "AWSTraceHeader"
_NAME = re.compile(r"[\w.-]+\Z")  # AWS accepts letters beyond ASCII: observed
_TYPE = re.compile(r"(String|Number|Binary)(?:\.|\Z)")
_NUMBER = re.compile(r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,9}))?\Z", re.ASCII)
_RESERVED = ("aws.", "amazon.")


class Attribute(msgspec.Struct, frozen=True, array_like=True):
    """A message attribute. Its value is never empty: `blob` if the type is Binary, else `text`."""

    name: str
    data_type: str
    text: str = ""
    blob: bytes = b""

    def parts(self) -> tuple[bytes, bytes, bytes]:
        """Name, type and value: the parts that count for the size and the digest."""
        return self.name.encode(), self.data_type.encode(), self.blob or self.text.encode()

    def as_member(self) -> dict[str, str | bytes]:
        """The attribute as a member of an API response."""
        if self.blob:
            return {"BinaryValue": self.blob, "DataType": self.data_type}
        return {"StringValue": self.text, "DataType": self.data_type}

    def normalised(self) -> Attribute:
        """The attribute as consumers receive it: AWS normalises numbers."""
        if not self.data_type.startswith("Number"):
            return self
        number = normalize_number(self.name, self.text)
        return self if number == self.text else Attribute(self.name, self.data_type, number)


class Attributes(NamedTuple):
    """The attributes of a message. Senders get the digest of what they sent, consumers that of what they receive."""

    size: int = 0
    sent_md5: str = ""
    stored: tuple[Attribute, ...] = ()
    stored_md5: str = ""


NO_ATTRIBUTES = Attributes()


def read_attributes(members: Mapping[str, Mapping[str, Any]]) -> Attributes:
    """Read and validate a request's attributes. Raises RequestError."""
    if len(members) > MESSAGE_ATTRIBUTES_MAX:
        raise _invalid(
            f"Number of message attributes [{len(members)}] exceeds the allowed maximum [{MESSAGE_ATTRIBUTES_MAX}]."
        )
    sent = [_read(name, member) for name, member in sorted(members.items())]  # UTF-8 sorts by byte as by code point
    stored = [attribute.normalised() for attribute in sent]
    sent_md5 = digest(sent)
    size = sum([len(part) for attribute in sent for part in attribute.parts()])
    return Attributes(size, sent_md5, tuple(stored), sent_md5 if stored == sent else digest(stored))


def read_system_attributes(members: Mapping[str, Mapping[str, Any]]) -> tuple[Attribute, ...]:
    """Read and validate a request's system attributes: only the trace header can be set."""
    for name, member in members.items():
        if name != TRACE_HEADER:
            raise _invalid(f"Message system attribute name '{name}' is invalid.")
        if member.get("DataType") != "String":
            raise _invalid(f"The type of message system attribute '{name}' must be String.")
    return tuple(_read_value(name, "String", member) for name, member in members.items())


def digest(attributes: Iterable[Attribute]) -> str:
    """The MD5 digest that SDKs compare. `attributes` are sorted by name."""
    digested = bytearray()
    for attribute in attributes:
        name, data_type, value = attribute.parts()
        digested += len(name).to_bytes(4, "big") + name
        digested += len(data_type).to_bytes(4, "big") + data_type
        digested += b"\x02" if attribute.blob else b"\x01"
        digested += len(value).to_bytes(4, "big") + value
    return hashlib.md5(digested).hexdigest()


def normalize_number(name: str, text: str) -> str:
    """The number as SQS stores it: a plain decimal without exponent, plus sign or leading and trailing zeros.

    `name` is the attribute's, for the errors. It works on text: a value may have more digits than any number type has.
    """
    match = _NUMBER.match(text)
    if match is None:
        raise RequestError(
            "InvalidParameterValue", f"Can't cast the value of message (user) attribute '{name}' to a number."
        )
    sign, whole, fraction, bare_fraction, exponent = match.groups(default="")
    fraction = fraction or bare_fraction
    digits = (whole + fraction).lstrip("0")
    scale = len(fraction) - int(exponent or 0)  # the value is digits / 10 ** scale
    if not NUMBER_EXPONENT_MIN <= max(len(digits), 1) - 1 - scale <= NUMBER_EXPONENT_MAX:
        raise RequestError(
            "InvalidParameterValue",
            f"Message (user) attribute '{name}' number value [{text}] must be between 10^-128 and 10^126.",
        )
    significant = digits.rstrip("0")
    if len(significant) > NUMBER_DIGITS_MAX:
        raise RequestError(
            "InvalidParameterValue",
            f"Message (user) attribute '{name}' number value [{text}] must contain fewer than 38 precision digits.",
        )
    if not significant:
        return "0"
    plain = _plain_decimal(significant, scale - (len(digits) - len(significant)))
    return f"-{plain}" if sign == "-" else plain


def _plain_decimal(digits: str, scale: int) -> str:
    if scale <= 0:
        return digits + "0" * -scale
    digits = digits.rjust(scale + 1, "0")
    return f"{digits[:-scale]}.{digits[-scale:]}"


def _read(name: str, member: Mapping[str, Any]) -> Attribute:
    _check_name(name)
    if not member:
        raise _invalid(f"The message (user) attribute '{name}' must contain a non-empty message attribute value.")
    if member.get("StringListValues") or member.get("BinaryListValues"):
        raise RequestError(
            "UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported."
        )
    data_type = member.get("DataType") or ""
    if not _TYPE.match(data_type):
        raise _invalid(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the following supported type "
            "prefixes: Binary, Number, String."
        )
    if len(data_type) > ATTRIBUTE_NAME_CHARS_MAX:
        raise _invalid("Message (user) attribute type must be shorter than 256 bytes.")
    encode_text(data_type, "InvalidParameterValue")
    return _read_value(name, data_type, member)


def _read_value(name: str, data_type: str, member: Mapping[str, Any]) -> Attribute:
    kind = data_type.partition(".")[0]
    value = member.get("BinaryValue" if kind == "Binary" else "StringValue")
    if not value:
        raise _invalid(f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'.")
    if kind != "Binary":
        encode_text(value, "InvalidParameterValue")
    return Attribute(name, data_type, blob=value) if kind == "Binary" else Attribute(name, data_type, value)


def _check_name(name: str) -> None:
    if not name:
        raise _invalid("The request must contain non-empty message (user) attribute names.")
    if len(name) > ATTRIBUTE_NAME_CHARS_MAX:
        raise _invalid("Message (user) attribute names must be shorter than 256 Bytes")
    if not _NAME.match(name):
        raise _invalid(
            "Message (user) attributes name can only contain upper and lower score characters, digits, periods, "
            "hyphens and underscores. "
        )
    if name.lower().startswith(_RESERVED):
        raise _invalid(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for "
            "internal use. Additionally, they cannot start or end with '.'."
        )
    if name.startswith(".") or name.endswith("."):
        raise _invalid("Message (user) attribute names cannot start or end with '.'.")


def _invalid(text: str) -> RequestError:
    return RequestError("InvalidParameterValue", text)
