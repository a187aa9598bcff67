"""Every operation with botocore: it writes the requests that we read, and reads the answers that we write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from botocore.model import OperationModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from cns_common.aws.protocol.models import load_service
from cns_common.aws.protocol.names import ServiceName
from tests.protocol.support import (
    SERVICES,
    as_clients_see,
    botocore_model,
    empty_input,
    full_input,
    full_output,
    minimal_input,
    operations,
    query_model,
)

JSON_OPERATIONS = operations(botocore_model("sqs"))
QUERY_OPERATIONS = [(service, operation) for service in SERVICES for operation in operations(query_model(service))]


def title(value: object) -> str:
    return value.name if isinstance(value, OperationModel) else str(getattr(value, "__name__", value))


@pytest.mark.parametrize("service", SERVICES)
def test_the_table_holds_the_whole_model(service: ServiceName) -> None:
    assert load_service(service).operations.keys() == set(botocore_model(service).operation_names)


@pytest.mark.spec("protocol.model")
@pytest.mark.parametrize("make", [minimal_input, full_input, empty_input], ids=title)
@pytest.mark.parametrize("operation", JSON_OPERATIONS, ids=title)
def test_a_json_request(operation: OperationModel, make: Callable[[OperationModel], dict[str, Any]]) -> None:
    params = make(operation)
    body = create_serializer("json", include_validation=False).serialize_to_request(params, operation)["body"]
    assert load_service("sqs").operations[operation.name].parse_json(body) == params


@pytest.mark.spec("protocol.model")
@pytest.mark.parametrize("make", [minimal_input, full_input], ids=title)
@pytest.mark.parametrize(("service", "operation"), QUERY_OPERATIONS, ids=title)
def test_a_query_request(
    service: ServiceName, operation: OperationModel, make: Callable[[OperationModel], dict[str, Any]]
) -> None:
    params = make(operation)
    assert load_service(service).operations[operation.name].parse_query(query_pairs(operation, params)) == params


@pytest.mark.parametrize(("service", "operation"), QUERY_OPERATIONS, ids=title)
def test_an_empty_list_is_sent_by_query_and_an_empty_map_is_not(
    service: ServiceName, operation: OperationModel
) -> None:
    params = empty_input(operation)
    sent = {name: value for name, value in params.items() if value == []}
    assert load_service(service).operations[operation.name].parse_query(query_pairs(operation, params)) == sent


def query_pairs(operation: OperationModel, params: dict[str, Any]) -> list[tuple[str, str]]:
    """The pairs of a form written by botocore."""
    serializer = create_serializer("query", include_validation=False)
    form = urlencode(serializer.serialize_to_request(params, operation)["body"])
    return parse_qsl(form, keep_blank_values=True)


@pytest.mark.spec("protocol.model")
@pytest.mark.parametrize("operation", JSON_OPERATIONS, ids=title)
def test_a_json_result(operation: OperationModel) -> None:
    result = full_output(operation)
    body = load_service("sqs").operations[operation.name].render_json(result)
    assert parsed("json", body, operation) == result


@pytest.mark.spec("protocol.model", "query.element-move-task")
@pytest.mark.parametrize(("service", "operation"), QUERY_OPERATIONS, ids=title)
def test_a_query_result(service: ServiceName, operation: OperationModel) -> None:
    result = full_output(operation)
    body = load_service(service).operations[operation.name].render_xml(result, "r-1")
    answer = parsed("query", body, operation)
    assert answer == (as_clients_see(result, operation.output_shape) if operation.output_shape else {})


@pytest.mark.spec("protocol.empty-json", "protocol.empty-batch-half", "protocol.json-no-output")
@pytest.mark.parametrize("blank", [{}, None, []], ids=["map", "none", "list"])
@pytest.mark.parametrize("operation", JSON_OPERATIONS, ids=title)
def test_what_a_json_result_has_not_is_absent(operation: OperationModel, blank: object) -> None:
    members = operation.output_shape.members if operation.output_shape else {}
    body = load_service("sqs").operations[operation.name].render_json(dict.fromkeys(members, blank))
    assert body == (b"{}" if operation.output_shape else b"")


@pytest.mark.parametrize(("service", "operation"), QUERY_OPERATIONS, ids=title)
def test_what_a_query_result_has_not_is_absent(service: ServiceName, operation: OperationModel) -> None:
    members = operation.output_shape.members if operation.output_shape else {}
    body = load_service(service).operations[operation.name].render_xml(dict.fromkeys(members), "r-1")
    assert (f"<{operation.name}Result/>".encode() in body) is bool(operation.output_shape)
    assert parsed("query", body, operation) == {}


def parsed(protocol: str, body: bytes, operation: OperationModel) -> dict[str, Any]:
    """The answer as a client parses it, without the metadata."""
    response = {"status_code": 200, "headers": {}, "body": body}
    shape: Any = operation.output_shape  # an operation without output has None
    answer: dict[str, Any] = create_parser(protocol).parse(response, shape)
    if protocol == "query":
        assert answer["ResponseMetadata"]["RequestId"] == "r-1"
    del answer["ResponseMetadata"]
    return answer
