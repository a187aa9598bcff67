"""AWS Query's answer: an operation's result as XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from cns_common.aws.call import Result
from cns_common.aws.protocol.names import ELEMENT_ORDER, XML_DECLARATIONS, XML_NAMESPACES, ServiceName
from cns_common.aws.protocol.scalars import write_blob, write_boolean, write_iso_time
from cns_common.aws.protocol.shapes import Member, Shape

RenderXml = Callable[[Result, str], bytes]
Write = Callable[[Any], str]

# XML 1.0 allows these characters not even escaped: a client's parser would refuse the whole answer
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def compile_render(service: ServiceName, operation: str, shape: Shape | None) -> RenderXml:
    """Make the writer of one operation's result. An operation without output has no Result element."""
    opening = f'{XML_DECLARATIONS[service]}<{operation}Response xmlns="{XML_NAMESPACES[service]}">'
    closing = f"</RequestId></ResponseMetadata></{operation}Response>"
    write = _result_writer(service, operation, shape)

    def render(result: Result, request_id: str) -> bytes:
        return f"{opening}{write(result)}<ResponseMetadata><RequestId>{request_id}{closing}".encode()

    return render


def escape(text: str) -> str:
    """Escape a text for XML, CR too: parsers turn a bare one into LF, and the digest of a body would not match."""
    if not text.isprintable():
        text = _NOT_IN_XML.sub("\ufffd", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")


_SCALARS: Mapping[str, Write] = {
    "string": escape,
    "blob": write_blob,
    "integer": str,
    "long": str,
    "boolean": write_boolean,
    "timestamp": write_iso_time,
}


def _result_writer(service: ServiceName, operation: str, shape: Shape | None) -> Write:
    if shape is None:
        return lambda _: ""
    return _element(f"{operation}Result", _content(shape, ELEMENT_ORDER[service]))


def _element(tag: str, content: Write) -> Write:
    opening, closing, empty = f"<{tag}>", f"</{tag}>", f"<{tag}/>"

    def write(value: Any) -> str:
        inner = content(value)
        return opening + inner + closing if inner else empty

    return write


def _content(shape: Shape, order: Mapping[str, tuple[str, ...]]) -> Write:
    """A writer of the content between the tags of a value of `shape`."""
    if shape.kind == "structure":
        return _structure(shape, order)
    if shape.kind == "list":
        return _each_item(_element(shape.item.wire, _content(shape.item.shape, order)))
    if shape.kind == "map":
        return _each_entry("entry", shape, order)
    return _SCALARS[shape.kind]


def _structure(shape: Shape, order: Mapping[str, tuple[str, ...]]) -> Write:
    writers = [(member.name, _member(member, order)) for member in _ordered(shape, order.get(shape.name, ()))]

    def write(structure: Result) -> str:
        return "".join(
            [write_member(structure[name]) for name, write_member in writers if structure.get(name) is not None]
        )

    return write


def _ordered(shape: Shape, first: tuple[str, ...]) -> list[Member]:
    rank = {name: position for position, name in enumerate(first)}
    return sorted(shape.members, key=lambda member: rank.get(member.name, len(rank)))


def _member(member: Member, order: Mapping[str, tuple[str, ...]]) -> Write:
    if member.shape.flattened and member.shape.kind == "list":
        return _each_item(_element(member.wire, _content(member.shape.item.shape, order)))
    if member.shape.flattened:
        return _each_entry(member.wire, member.shape, order)
    return _element(member.wire, _content(member.shape, order))


def _each_item(write_item: Write) -> Write:
    return lambda items: "".join(map(write_item, items))


def _each_entry(tag: str, shape: Shape, order: Mapping[str, tuple[str, ...]]) -> Write:
    write_key = _element(shape.key.wire, escape)
    write_value = _element(shape.value.wire, _content(shape.value.shape, order))

    def write(entries: Mapping[str, Any]) -> str:
        written = [f"<{tag}>{write_key(key)}{write_value(value)}</{tag}>" for key, value in entries.items()]
        return "".join(written)

    return write
