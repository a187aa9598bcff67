"""Message attributes: which are accepted, what is stored of them, and their digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from cns_common.errors import RequestError
from cqs.limits import ATTRIBUTE_NAME_CHARS_MAX, MESSAGE_ATTRIBUTES_MAX
from cqs.messages.message_text import encode_text
from cqs.messages.number_attributes import normalize_number

TRACE_HEADER = "AWSTraceHeader"
_NAME = re.compile(r"[\w.-]+\Z")  # AWS was seen to take letters beyond ASCII
_TYPE = re.compile(r"(String|Number|Binary)(?:\.|\Z)")
_RESERVED = ("aws.", "amazon.")


class Attribute(msgspec.Struct, frozen=True, array_like=True):
    """A message attribute. A value is never empty: a Binary one is in `blob`, any other in `text`."""

    name: str
    data_type: str
    text: str = ""
    blob: bytes = b""

    def parts(self) -> tuple[bytes, bytes, bytes]:
        """Name, type and value: what is counted and digested."""
        return self.name.encode(), self.data_type.encode(), self.blob or self.text.encode()

    def as_member(self) -> dict[str, str | bytes]:
        """The attribute as the API gives it back."""
        if self.blob:
            return {"BinaryValue": self.blob, "DataType": self.data_type}
        return {"StringValue": self.text, "DataType": self.data_type}

    def normalised(self) -> Attribute:
        """What receivers get: AWS rewrites numbers."""
        if not self.data_type.startswith("Number"):
            return self
        number = normalize_number(self.name, self.text)
        return self if number == self.text else Attribute(self.name, self.data_type, number)


class Attributes(NamedTuple):
    """The attributes of a message. Senders are told the digest of what they sent, receivers that of what they get."""

    size: int = 0
    sent_md5: str = ""
    stored: tuple[Attribute, ...] = ()
    stored_md5: str = ""


NO_ATTRIBUTES = Attributes()


def read_attributes(members: Mapping[str, Mapping[str, Any]]) -> Attributes:
    """The attributes of a request, checked."""
    if len(members) > MESSAGE_ATTRIBUTES_MAX:
        raise _invalid(
            f"Number of message attributes [{len(members)}] exceeds the allowed maximum [{MESSAGE_ATTRIBUTES_MAX}]."
        )
    sent = [_read(name, member) for name, member in sorted(members.items())]  # by code point is by UTF-8 byte, too
    stored = [attribute.normalised() for attribute in sent]
    sent_md5 = digest(sent)
    size = sum([len(part) for attribute in sent for part in attribute.parts()])
    return Attributes(size, sent_md5, tuple(stored), sent_md5 if stored == sent else digest(stored))


def read_system_attributes(members: Mapping[str, Mapping[str, Any]]) -> tuple[Attribute, ...]:
    """The system attributes of a request: only the trace header may be set."""
    for name, member in members.items():
        if name != TRACE_HEADER:
            raise _invalid(f"Message system attribute name '{name}' is invalid.")
        if member.get("DataType") != "String":
            raise _invalid(f"The type of message system attribute '{name}' must be String.")
    return tuple(_read_value(name, "String", member) for name, member in members.items())


def digest(attributes: Iterable[Attribute]) -> str:
    """The MD5 that SDKs compare; `attributes` are in the order of their names."""
    digested = bytearray()
    for attribute in attributes:
        name, data_type, value = attribute.parts()
        digested += len(name).to_bytes(4, "big") + name
        digested += len(data_type).to_bytes(4, "big") + data_type
        digested += b"\x02" if attribute.blob else b"\x01"
        digested += len(value).to_bytes(4, "big") + value
    return hashlib.md5(digested).hexdigest()


def _read(name: str, member: Mapping[str, Any]) -> Attribute:
    _check_name(name)
    data_type = member.get("DataType") or ""
    if not _TYPE.match(data_type):
        raise _invalid(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the following supported type "
            "prefixes: Binary, Number, String."
        )
    if len(data_type) > ATTRIBUTE_NAME_CHARS_MAX:
        raise _invalid(f"The type of message (user) attribute '{name}' must be shorter than 256 characters.")
    encode_text(data_type, "InvalidParameterValue")
    if member.get("StringListValues") or member.get("BinaryListValues"):
        raise RequestError(
            "UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported."
        )
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
