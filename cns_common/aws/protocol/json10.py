"""AWS JSON 1.0: an operation's input from a request's body, and the answer's body from its result.

msgspec decodes the body by a type made from the input shape: it checks types and decodes base64 while it parses, at
almost the cost of an unchecked decode. A body that it refuses is read again by `json_checked`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Annotated, Any, TypedDict

import msgspec

from cns_common.aws.call import Params, Result
from cns_common.aws.protocol.json_checked import compile_checked_parse
from cns_common.aws.protocol.scalars import INTEGER_RANGES, write_epoch_time
from cns_common.aws.protocol.shapes import Shape
from cns_common.errors import UNREADABLE

ParseJson = Callable[[bytes], Params]
RenderJson = Callable[[Result], bytes]

_SCALARS = (str, int, bytes)


def compile_parse(shape: Shape) -> ParseJson:
    """Make the reader of one operation's input. Unknown members are ignored; null means absent."""
    decode = msgspec.json.Decoder(_python_type(shape)).decode
    parse_checked = compile_checked_parse(shape)

    def parse(body: bytes) -> Params:
        try:
            params: Params = decode(body)
        except UNREADABLE:
            return parse_checked(body)
        return params

    return parse


def compile_render(shape: Shape | None) -> RenderJson:
    """Make the writer of one operation's result. An operation without output has an empty body."""
    if shape is None:
        return lambda _: b""
    prepare = _prepare_structure(shape)
    encode = msgspec.json.Encoder().encode

    def render(result: Result) -> bytes:
        return encode(prepare(result))

    return render


def _python_type(shape: Shape) -> Any:
    """The type that msgspec reads `shape` into. It allows no null: `json_checked` reads those."""
    if shape.kind == "structure":
        fields = {member.name: _python_type(member.shape) for member in shape.members}
        return TypedDict(shape.name, fields, total=False)  # type: ignore[operator]  # made from data
    if shape.kind == "list":
        return GenericAlias(list, (_python_type(shape.item.shape),))
    if shape.kind == "map":
        return GenericAlias(dict, (str, _python_type(shape.value.shape)))
    if shape.kind in INTEGER_RANGES:
        least, most = INTEGER_RANGES[shape.kind]
        return Annotated[int, msgspec.Meta(ge=least, le=most)]
    return {"string": str, "blob": bytes, "boolean": bool}[shape.kind]


def _compile_prepare(shape: Shape) -> Callable[[Any], Any] | None:
    """The function that prepares a value of `shape` for msgspec, which writes bytes as base64 itself; or None."""
    if shape.kind == "structure":
        return _prepare_structure(shape)
    if shape.kind == "timestamp":
        return write_epoch_time
    if shape.kind == "list" and (prepare_item := _compile_prepare(shape.item.shape)):
        return lambda items: [prepare_item(item) for item in items]
    if shape.kind == "map" and (prepare_value := _compile_prepare(shape.value.shape)):
        return lambda entries: {key: prepare_value(value) for key, value in entries.items()}
    return None


def _prepare_structure(shape: Shape) -> Callable[[Any], Any]:
    """Omit members that are None and empty lists and maps, as AWS does."""
    inner = [(member.name, prepare) for member in shape.members if (prepare := _compile_prepare(member.shape))]

    def prepare_structure(structure: Result) -> Result:
        present = {name: value for name, value in structure.items() if value or isinstance(value, _SCALARS)}
        for name, prepare in inner:
            if name in present:
                present[name] = prepare(present[name])
        return present

    return prepare_structure
