"""Checks the text and the subject of a message at Publish, and splits the text by protocol."""

from __future__ import annotations

import re

import msgspec

from cns_common.errors import UNREADABLE, RequestError

DEFAULT_TEXT = "default"
SUBJECT_UNITS_MAX = 100  # UTF-16 code units: an emoji counts two

# Control characters, line breaks and lone surrogates.
_NOT_IN_SUBJECT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_message(message: str, *, may_be_empty: bool = False) -> None:
    if not message and not may_be_empty:
        raise _invalid("Empty message")
    try:
        message.encode()  # far cheaper than a search for lone surrogates
    except UnicodeEncodeError:
        raise _invalid("Message") from None


def check_size(size_bytes: int, size_bytes_max: int) -> None:
    """`size_bytes` counts the message and its attributes (`message_attributes.publish_bytes`), not the subject."""
    if size_bytes > size_bytes_max:
        raise _invalid("Message too long")


def check_subject(subject: str | None) -> None:
    """No subject is fine; an empty one is refused."""
    if subject is None:
        return
    units = len(subject) + sum(character > "\uffff" for character in subject)
    if not 1 <= units <= SUBJECT_UNITS_MAX or _NOT_IN_SUBJECT.search(subject):
        raise _invalid("Subject")


def texts_of(message: str, structure: str | None) -> dict[str, str]:
    """Texts by protocol. 'default' is always there; another protocol only where its text differs."""
    if structure is None:
        return {DEFAULT_TEXT: message}
    if structure != "json":
        raise _invalid("MessageStructure")
    members = _members(message)
    default = _default_text(members.pop(DEFAULT_TEXT, None))
    strings = {protocol: _string(value) for protocol, value in members.items() if _is_string(value)}
    return {DEFAULT_TEXT: default} | {protocol: text for protocol, text in strings.items() if text != default}


def text_under(key: str, message: str, structure: str | None) -> str | None:
    """The text that a message of MessageStructure=json has for this kind of endpoint, or None."""
    value = _members(message).get(key) if structure == "json" else None
    return _string(value) if value is not None and _is_string(value) else None


def _members(message: str) -> dict[str, msgspec.Raw]:
    """The members in their raw form. A repeated key keeps its last value, as on AWS. Nested values are checked, too."""
    try:
        return msgspec.json.decode(message.encode(), type=dict[str, msgspec.Raw])
    except UNREADABLE:
        raise _invalid("Message Structure - JSON message body failed to parse") from None


def _default_text(value: msgspec.Raw | None) -> str:
    """A string, or another scalar in its raw form (17, null). An object or array counts as missing."""
    if value is None or memoryview(value)[0] in b"{[":
        raise _invalid("Message Structure - No default entry in JSON message body")
    return _string(value) if _is_string(value) else bytes(value).decode()


def _is_string(value: msgspec.Raw) -> bool:
    return memoryview(value)[0] in b'"'


def _string(value: msgspec.Raw) -> str:
    return msgspec.json.decode(value, type=str)


def _invalid(what: str) -> RequestError:
    return RequestError("InvalidParameter", f"Invalid parameter: {what}")
