"""Operations and shapes of a service, from botocore's model files, which are read without importing botocore."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from cns_common.aws.protocol.names import (
    API_VERSIONS,
    SQS_ENTRY_NAME_DEFAULT,
    SQS_ENTRY_NAMES,
    SQS_QUERY_NAMES,
    ServiceName,
)

Kind = Literal["structure", "list", "map", "string", "blob", "integer", "long", "boolean", "timestamp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a shape. `name` is the model's (JSON, results); `wire` is the Query parameter and the XML element."""

    name: str
    wire: str
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A type of the service model. A list has one member, its item; a map has two, its key and its value."""

    name: str
    kind: Kind
    members: tuple[Member, ...] = ()
    flattened: bool = False  # Query: items and entries repeat the list's own name, without a wrapper

    @property
    def item(self) -> Member:
        return self.members[0]

    @property
    def key(self) -> Member:
        return self.members[0]

    @property
    def value(self) -> Member:
        return self.members[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """An operation's input shape, and its output shape if it has output."""

    name: str
    input: Shape
    output: Shape | None


class RawReference(msgspec.Struct, rename="camel"):
    shape: str
    location_name: str = ""
    flattened: bool = False


class RawShape(msgspec.Struct):
    type: Kind  # a model with another type fails to load
    members: dict[str, RawReference] = {}
    member: RawReference | None = None
    key: RawReference | None = None
    value: RawReference | None = None
    flattened: bool = False


class RawOperation(msgspec.Struct):
    input: RawReference | None = None
    output: RawReference | None = None


class RawModel(msgspec.Struct):
    operations: dict[str, RawOperation]
    shapes: dict[str, RawShape]


def read_signatures(service: ServiceName) -> list[Signature]:
    model = msgspec.json.decode(_model_text(service), type=RawModel)
    reader = _Reader(model.shapes, flat=service == "sqs")
    return [
        Signature(
            name=name,
            input=reader.shape(raw.input) if raw.input else Shape(name=f"{name}Request", kind="structure"),
            output=reader.shape(raw.output) if raw.output else None,
        )
        for name, raw in model.operations.items()
    ]


def _model_text(service: ServiceName) -> bytes:
    """The model's JSON. botocore.loaders would import urllib3 and take 60 ms."""
    spec = find_spec("botocore")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("botocore, whose service models describe the API, is not installed")
    folder = Path(spec.submodule_search_locations[0], "data", service, API_VERSIONS[service])
    packed = folder / "service-2.json.gz"
    if packed.exists():
        return zlib.decompress(packed.read_bytes(), wbits=zlib.MAX_WBITS | 16)
    return (folder / "service-2.json").read_bytes()


class _Reader:
    """Resolves references between shapes. `flat`: the model lacks Query names (SQS)."""

    def __init__(self, shapes: Mapping[str, RawShape], flat: bool) -> None:
        self._shapes = shapes
        self._flat = flat

    def shape(self, reference: RawReference) -> Shape:
        raw = self._shapes[reference.shape]
        return Shape(
            name=reference.shape,
            kind=raw.type,
            members=self._members(reference.shape, raw),
            flattened=raw.flattened or reference.flattened,
        )

    def _members(self, shape_name: str, raw: RawShape) -> tuple[Member, ...]:
        if raw.member:
            return (self._member("member", raw.member),)
        if raw.key and raw.value:
            key, value = ("key", "value")
            if self._flat:
                key, value = SQS_ENTRY_NAMES.get(shape_name, SQS_ENTRY_NAME_DEFAULT)
            return (self._member(key, raw.key), self._member(value, raw.value))
        return tuple(self._member(name, reference) for name, reference in raw.members.items())

    def _member(self, name: str, reference: RawReference) -> Member:
        wire = SQS_QUERY_NAMES.get(reference.shape, name) if self._flat else reference.location_name or name
        return Member(name=name, wire=wire, shape=self.shape(reference))
