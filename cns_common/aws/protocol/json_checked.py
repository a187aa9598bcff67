"""Reads a JSON body that does not fit its shape: accepts what AWS accepts, and refuses the rest in AWS's words.

Accepted are null members (taken as absent), fractions for whole numbers (truncated) and lone surrogates, which become
U+FFFF: a character that can be encoded, and that is refused wherever surrogates are. Users of SQS, DynamoDB and Athena,
which share this reader at AWS, recorded the texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cns_common.aws.call import Params
from cns_common.aws.protocol.scalars import INTEGER_RANGES, NOUNS, read_blob
from cns_common.aws.protocol.shapes import Shape
from cns_common.errors import UNREADABLE, RequestError

Convert = Callable[[Any], Any]

# matches each escape of a JSON text in turn, so that `\\ud800`, an escaped backslash and letters, is no surrogate
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)


def compile_checked_parse(shape: Shape) -> Callable[[bytes], Params]:
    convert = _compile(shape)

    def parse(body: bytes) -> Params:
        try:
            value = msgspec.json.decode(_ESCAPE.sub(_replace_lone_surrogate, body))
        except UNREADABLE as error:
            raise RequestError("SerializationException") from error
        if not isinstance(value, dict | list):
            raise RequestError("SerializationException")
        params: Params = convert(value)
        return params

    return parse


def _replace_lone_surrogate(escape: re.Match[bytes]) -> bytes:
    return rb"\uffff" if escape["lone"] else escape[0]


def _compile(shape: Shape) -> Convert:
    if shape.kind == "structure":
        return _structure({member.name: _compile(member.shape) for member in shape.members})
    if shape.kind == "list":
        return _list(_compile(shape.item.shape))
    if shape.kind == "map":
        return _map(_compile(shape.value.shape))
    if shape.kind in INTEGER_RANGES:
        return _whole_number(shape.kind)
    return {"string": _string, "blob": _blob, "boolean": _boolean}[shape.kind]


def _structure(members: Mapping[str, Convert]) -> Convert:
    def convert(value: object) -> Params:
        if not isinstance(value, dict):
            raise _fault(value, "Expected null")
        present = {name: member for name, member in value.items() if member is not None and name in members}
        return {name: members[name](member) for name, member in present.items()}

    return convert


def _list(convert_item: Convert) -> Convert:
    def convert(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise _fault(value, "Expected list or null")
        return [convert_item(item) for item in value if item is not None]

    return convert


def _map(convert_value: Convert) -> Convert:
    def convert(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _fault(value, "Expected map or null")
        return {key: convert_value(entry) for key, entry in value.items() if entry is not None}

    return convert


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    raise _mismatch(value, "string")


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _mismatch(value, "boolean")


def _blob(value: object) -> bytes:
    if not isinstance(value, str):
        raise _mismatch(value, "blob")
    try:
        return read_blob(value)
    except RequestError as error:
        raise RequestError("SerializationException", error.message) from error


def _whole_number(kind: str) -> Convert:
    least, most = INTEGER_RANGES[kind]

    def convert(value: object) -> int:
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return int(value)
        raise _mismatch(value, kind)

    return convert


def _mismatch(value: object, kind: str) -> RequestError:
    if isinstance(value, bool):
        token = "TRUE_VALUE" if value else "FALSE_VALUE"
    else:
        token = "STRING_VALUE" if isinstance(value, str) else "NUMBER_VALUE"
    return _fault(value, f"{token} can not be converted to {NOUNS[kind]}")


def _fault(value: object, text_for_scalar: str) -> RequestError:
    if isinstance(value, list):
        return RequestError("SerializationException", "Start of list found where not expected")
    if isinstance(value, dict):
        return RequestError("SerializationException", "Start of structure or map found where not expected.")
    return RequestError("SerializationException", text_for_scalar)
