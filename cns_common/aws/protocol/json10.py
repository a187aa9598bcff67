"""AWS JSON 1.0: an operation's input from a request's body, and the answer's body from its result.

Reading is msgspec's own decoder, made from the input shape: it checks types and decodes base64 while it parses, which
costs next to nothing over an unchecked decode. Only a body it refuses is read again, in `json_slow`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Annotated, Any, TypedDict

import msgspec

from cns_common.aws.call import Params, Result
from cns_common.aws.protocol.json_checked import UNREADABLE, compile_slow_parse
from cns_common.aws.protocol.scalars import INTEGER_RANGES, write_epoch_time
from cns_common.aws.protocol.shapes import Shape

ParseJson = Callable[[bytes], Params]
RenderJson = Callable[[Result], bytes]

_SCALARS = (str, int, bytes)


def compile_parse(shape: Shape) -> ParseJson:
    """The reader of one operation's input. Unknown members are ignored, null ones absent."""
    decode = msgspec.json.Decoder(_python_type(shape)).decode
    parse_slowly = compile_slow_parse(shape)

    def parse(body: bytes) -> Params:
        try:
            params: Params = decode(body)
        except UNREADABLE:
            return parse_slowly(body)
        return params

    return parse


def compile_render(shape: Shape | None) -> RenderJson:
    """The writer of one operation's result; an operation without output has an empty body."""
    if shape is None:
        return lambda _: b""
    thin = _thin_structure(shape)
    encode = msgspec.json.Encoder().encode

    def render(result: Result) -> bytes:
        return encode(thin(result))

    return render


def _python_type(shape: Shape) -> Any:
    """The type msgspec reads `shape` into. It knows no null, so that a null member takes the slow way."""
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


def _compile_thin(shape: Shape) -> Callable[[Any], Any] | None:
    """What is left to do before msgspec writes a value of `shape` (bytes become base64 there), or None."""
    if shape.kind == "structure":
        return _thin_structure(shape)
    if shape.kind == "timestamp":
        return write_epoch_time
    if shape.kind == "list" and (thin_item := _compile_thin(shape.item.shape)):
        return lambda items: [thin_item(item) for item in items]
    if shape.kind == "map" and (thin_value := _compile_thin(shape.value.shape)):
        return lambda entries: {key: thin_value(value) for key, value in entries.items()}
    return None


def _thin_structure(shape: Shape) -> Callable[[Any], Any]:
    """AWS leaves out what is not there: None, and lists and maps with nothing in them."""
    inner = [(member.name, thin) for member in shape.members if (thin := _compile_thin(member.shape))]

    def thin_structure(structure: Result) -> Result:
        kept = {name: value for name, value in structure.items() if value or isinstance(value, _SCALARS)}
        for name, thin in inner:
            if name in kept:
                kept[name] = thin(kept[name])
        return kept

    return thin_structure
