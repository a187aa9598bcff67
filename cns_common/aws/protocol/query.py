"""AWS Query: an operation's input from the name-value pairs of a form or a query string.

Names are paths such as `Attribute.2.Name`. The reader descends the shape and the names together: each step removes the
first segment of the names, so a pair is handled once per level. Parameters that the shape lacks are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cns_common.aws.call import Params
from cns_common.aws.protocol.scalars import read_blob, read_boolean, read_integer, read_long, read_text
from cns_common.aws.protocol.shapes import Shape
from cns_common.errors import RequestError

Pairs = Iterable[tuple[str, str]]
ParseQuery = Callable[[Sequence[tuple[str, str]]], Params]
ReadText = Callable[[str], Any]
ReadPairs = Callable[[list[tuple[str, str]]], Any]

INDEX_DIGITS_MAX = 9
"""Indexes may have gaps: items are sorted by index, and the list is not filled up to it."""

_SCALARS: Mapping[str, ReadText] = {
    "string": read_text,
    "blob": read_blob,
    "integer": read_integer,
    "long": read_long,
    "boolean": read_boolean,
}


def compile_parse(shape: Shape) -> ParseQuery:
    """Make the reader of one operation's input."""
    return _structure(shape)


def _structure(shape: Shape) -> ParseQuery:
    leaves: dict[str, tuple[str, ReadText]] = {}
    branches: dict[str, tuple[str, ReadPairs]] = {}
    for member in shape.members:
        # AWS accepts the model's name, too: `Tags.1.Key`, as an old Java SDK sends it
        names = (member.name, member.wire)
        if read := _SCALARS.get(member.shape.kind):
            leaves |= dict.fromkeys(names, (member.name, read))
        else:
            branches |= dict.fromkeys(names, (member.name, _branch(member.shape)))

    def parse(pairs: Pairs) -> Params:
        params: Params = {}
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, text in pairs:
            if leaf := leaves.get(name):
                params[leaf[0]] = leaf[1](text)
                continue
            head, _, rest = name.partition(".")
            if head in branches:
                groups.setdefault(head, []).append((rest, text))
        for head, group in groups.items():
            member_name, read = branches[head]
            params[member_name] = read(group)
        return params

    return parse


def _branch(shape: Shape) -> ReadPairs:
    if shape.kind == "list":
        return _list(shape)
    if shape.kind == "map":
        return _map(shape)
    return _structure(shape)


def _list(shape: Shape) -> ReadPairs:
    wrapper = "" if shape.flattened else shape.item.wire
    read_scalar = _SCALARS.get(shape.item.shape.kind)
    read_item = _scalar_reader(read_scalar) if read_scalar else _branch(shape.item.shape)

    def read(pairs: list[tuple[str, str]]) -> list[Any]:
        if pairs[0][0] == "":
            return _unindexed(pairs[0][1], read_scalar)
        return [read_item(group) for group in _by_index(pairs, wrapper)]

    return read


def _unindexed(text: str, read_scalar: ReadText | None) -> list[Any]:
    """`AttributeName=All` is a list of one; `AttributeName=` is how SDKs send an empty list."""
    if not text:
        return []
    if read_scalar is None:
        raise RequestError("MalformedInput", "Unexpected complex element termination")
    return [read_scalar(text)]


def _map(shape: Shape) -> ReadPairs:
    wrapper = "" if shape.flattened else "entry"
    key_name, value_name = shape.key.wire, shape.value.wire
    read_scalar = _SCALARS.get(shape.value.shape.kind)
    read_value = _scalar_reader(read_scalar) if read_scalar else _branch(shape.value.shape)

    def read_entry(pairs: list[tuple[str, str]]) -> tuple[str, Any]:
        key: str | None = None
        values = []
        for name, text in pairs:
            head, _, rest = name.partition(".")
            if name == key_name:
                key = text
            elif head == value_name:
                values.append((rest, text))
        if key is None:
            raise RequestError("MalformedInput", "Unexpected complex element termination")
        return key, read_value(values)

    def read(pairs: list[tuple[str, str]]) -> dict[str, Any]:
        return dict(map(read_entry, _by_index(pairs, wrapper)))

    return read


def _scalar_reader(read_scalar: ReadText) -> ReadPairs:
    """A reader of a value without parts. A value that was not sent is the empty text."""

    def read(pairs: list[tuple[str, str]]) -> Any:
        if any(rest for rest, _ in pairs):
            raise RequestError("MalformedInput", "Start of structure or map found where not expected.")
        return read_scalar(pairs[-1][1] if pairs else "")

    return read


def _by_index(pairs: Pairs, wrapper: str) -> list[list[tuple[str, str]]]:
    """The pairs of each index, in the order of the indexes. `wrapper` precedes each index; it is '' when flattened."""
    groups: dict[int, list[tuple[str, str]]] = {}
    for name, text in pairs:
        head, _, rest = name.partition(".")
        if wrapper:
            if head != wrapper:
                continue
            head, _, rest = rest.partition(".")
        groups.setdefault(_index(head), []).append((rest, text))
    return [groups[index] for index in sorted(groups)]


def _index(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise RequestError("MalformedInput", "Start of structure or map found where not expected.")
    if len(text) > INDEX_DIGITS_MAX or (index := int(text)) < 1:
        raise RequestError("MalformedInput", f"{text} is not a valid index")
    return index
