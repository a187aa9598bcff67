"""Shared by the protocol tests: case tables, botocore's service models, and sample values made from shapes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel

from cns_common.aws.protocol.names import API_VERSIONS, XML_NAMESPACES, ServiceName

CASES = Path(__file__).parent / "cases"
SERVICES: tuple[ServiceName, ...] = ("sqs", "sns", "sts")
HARD_TEXT = "a<&>\"' \r\n\r\t é 漢 😀 ]]> &#xD;"


def read_cases(name: str) -> Any:
    """A table of cases; `{"base64": …}` stands for bytes, which JSON does not have."""
    return json.loads((CASES / name).read_text(), object_hook=_bytes)


def _bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"]) if value.keys() == {"base64"} else value


@cache
def botocore_model(service: ServiceName) -> ServiceModel:
    return ServiceModel(Loader().load_service_model(service, "service-2", API_VERSIONS[service]), service)


@cache
def query_model(service: ServiceName) -> ServiceModel:
    """The service's model for SDKs of the Query protocol; SQS gets the traits that its model had until 2023."""
    description = Loader().load_service_model(service, "service-2", API_VERSIONS[service])
    if service == "sqs":
        description = json.loads(json.dumps(description))
        _restore_query_traits(description, read_cases("sqs_query_traits.json"))
    return ServiceModel(description, service)


def _restore_query_traits(description: dict[str, Any], traits: dict[str, Any]) -> None:
    description["metadata"] |= {"protocol": "query", "protocols": ["query"], "xmlNamespace": XML_NAMESPACES["sqs"]}
    shapes = description["shapes"]
    for name, item in traits["items"].items():
        shapes[name]["member"]["locationName"] = item
    for name, (key, value) in traits["entries"].items():
        shapes[name]["key"]["locationName"] = key
        shapes[name]["value"]["locationName"] = value
    for name, members in traits["members"].items():
        for member, location in members.items():
            shapes[name]["members"][member]["locationName"] = location
    for name, operation in description["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"


def operations(model: ServiceModel) -> list[OperationModel]:
    return [model.operation_model(name) for name in model.operation_names]


def minimal_input(operation: OperationModel) -> dict[str, Any]:
    """The required members only."""
    shape = operation.input_shape
    if shape is None:
        return {}
    return {name: _sample(shape.members[name], name) for name in shape.required_members}


def full_input(operation: OperationModel) -> dict[str, Any]:
    """All members of the model."""
    return {} if operation.input_shape is None else _sample(operation.input_shape, "")


def empty_input(operation: OperationModel) -> dict[str, Any]:
    """Every list and map member, empty."""
    members = {} if operation.input_shape is None else operation.input_shape.members
    empty: dict[str, Any] = {"list": [], "map": {}}
    return {name: empty[shape.type_name] for name, shape in members.items() if shape.type_name in empty}


def full_output(operation: OperationModel) -> dict[str, Any]:
    return {} if operation.output_shape is None else _sample(operation.output_shape, "")


def _sample(shape: Any, name: str) -> Any:
    match shape.type_name:
        case "structure":
            return {member: _sample(inner, member) for member, inner in shape.members.items()}
        case "list":
            return [_sample(shape.member, f"{name}{number}") for number in range(12)]
        case "map":
            return {f"{name}{number}{HARD_TEXT}": _sample(shape.value, f"{name}{number}") for number in range(2)}
        case "blob":
            return bytes(range(256))
        case "integer" | "long":
            return len(name)
        case "boolean":
            return len(name) % 2 == 1
        case "timestamp":
            return 1767323045000
    return f"{name} {HARD_TEXT}"


def as_clients_see(value: Any, shape: Any) -> Any:
    """A result as botocore returns it: times are datetimes."""
    match shape.type_name:
        case "structure":
            return {name: as_clients_see(member, shape.members[name]) for name, member in value.items()}
        case "list":
            return [as_clients_see(item, shape.member) for item in value]
        case "map":
            return {key: as_clients_see(entry, shape.value) for key, entry in value.items()}
        case "timestamp":
            return datetime.fromtimestamp(value / 1000, UTC)
    return value
