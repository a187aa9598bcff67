"""AWS Query's answer to `Accept: application/json`, which API Gateway requests: JSON in the envelope of the XML answer.

Unlike AWS JSON it writes absent members as null, members in alphabetical order, and flattened maps as lists of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cns_common.aws.call import Result
from cns_common.aws.protocol.names import SQS_QUERY_JSON_NAMES
from cns_common.aws.protocol.scalars import write_epoch_time
from cns_common.aws.protocol.shapes import Shape

RenderQueryJson = Callable[[Result, str], bytes]
Convert = Callable[[Any], Any]


def compile_render(operation: str, shape: Shape | None) -> RenderQueryJson:
    convert = _compile(shape) if shape else None

    def render(result: Result, request_id: str) -> bytes:
        answer: Result = {f"{operation}Result": convert(result)} if convert else {}
        answer["ResponseMetadata"] = {"RequestId": request_id}
        return msgspec.json.encode({f"{operation}Response": answer})

    return render


def _compile(shape: Shape) -> Convert:
    if shape.kind == "structure":
        return _structure(shape)
    if shape.kind == "list":
        return _list(_compile(shape.item.shape))
    if shape.kind == "map":
        return _map(shape, _compile(shape.value.shape))
    return write_epoch_time if shape.kind == "timestamp" else _unchanged


def _structure(shape: Shape) -> Convert:
    members = {member.name: _compile(member.shape) for member in sorted(shape.members, key=lambda member: member.name)}

    def convert(structure: Mapping[str, Any]) -> Result:
        return {
            SQS_QUERY_JSON_NAMES.get(name, name): None
            if structure.get(name) is None
            else convert_member(structure[name])
            for name, convert_member in members.items()
        }

    return convert


def _list(convert_item: Convert) -> Convert:
    return lambda items: [convert_item(item) for item in items]


def _map(shape: Shape, convert_value: Convert) -> Convert:
    key_name, value_name = shape.key.wire, shape.value.wire
    if shape.flattened:
        return lambda entries: [{key_name: key, value_name: convert_value(value)} for key, value in entries.items()]
    return lambda entries: {key: convert_value(value) for key, value in entries.items()}


def _unchanged(value: object) -> object:
    return value
