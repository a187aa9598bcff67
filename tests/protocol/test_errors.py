"""Errors on the wire: one table of codes, seen by botocore in each protocol, and completeness against the models."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.parsers import create_parser

from cns_common.aws.protocol.errors import (
    HttpAnswer,
    render_error_json,
    render_error_query_json,
    render_error_xml,
)
from cns_common.aws.protocol.faults import known_codes, wire_code
from cns_common.aws.protocol.names import ServiceName
from cns_common.errors import OutcomeUnknown, RequestError, StoreAway, StoreFull, StoreUnavailable
from tests.protocol.support import HARD_TEXT, SERVICES, botocore_model, query_model, read_cases
from tests.spec.rules import load_rules

TABLE = read_cases("errors.json")
ROOT = Path(__file__).parents[2]
LEGACY = "AWS.SimpleQueueService."


def title(case: dict[str, Any]) -> str:
    return f"{case['service']} {case['code']}"


RULES = {"sqs": "error.", "sns": "sns-error.", "sts": ""}
"""Prefixes of the ids of the rules about error codes."""


def of(service: ServiceName) -> list[Any]:
    """Each case, marked with the rule of its code if there is one: the rule's id ends with the code on the wire."""
    rules = load_rules()
    named = [(RULES[service] + case["wire"].removeprefix(LEGACY), case) for case in TABLE if case["service"] == service]
    return [
        pytest.param(case, marks=[pytest.mark.spec(rule)] if rule in rules else [], id=title(case))
        for rule, case in named
    ]


def headers(answer: HttpAnswer) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in answer.headers}


def parsed(protocol: str, answer: HttpAnswer, service: ServiceName) -> dict[str, Any]:
    """The error as a client parses it. Its class follows from the shape, so any operation's parser will do."""
    model = botocore_model(service) if protocol == "json" else query_model(service)
    shape: Any = model.operation_model(model.operation_names[0]).output_shape
    response = {"status_code": answer.status, "headers": headers(answer), "body": answer.body}
    error: dict[str, Any] = create_parser(protocol).parse(response, shape)
    return error


def side(case: dict[str, Any]) -> str:
    return "Sender" if case["status"] < 500 else "Receiver"


def retry_after(case: dict[str, Any]) -> dict[str, str]:
    return {"x-amz-retry-after": "500"} if case["status"] == 503 else {}


@pytest.mark.spec("error.in-json", "error.query-error-header", "error.sdk-sees")
@pytest.mark.parametrize("case", of("sqs"))
def test_in_json(case: dict[str, Any]) -> None:
    text = case.get("message", "text")
    answer = render_error_json("sqs", RequestError(case["code"], text), "r-1")
    assert answer.status == case["status"]
    assert json.loads(answer.body) == {"__type": case["shape"], "message": text}
    assert headers(answer) == {
        "content-type": "application/x-amz-json-1.0",
        "x-amzn-requestid": "r-1",
        "x-amzn-query-error": f"{case['wire']};{side(case)}",
        **retry_after(case),
    }
    error = parsed("json", answer, "sqs")["Error"]
    shape = case["shape"].partition("#")[2]
    assert error == {"Code": case["wire"], "QueryErrorCode": shape, "Type": side(case), "Message": text}


@pytest.mark.parametrize("case", [case for service in SERVICES for case in of(service)])
def test_in_xml(case: dict[str, Any]) -> None:
    answer = render_error_xml(case["service"], RequestError(case["code"], case.get("message", "text")), "r-1")
    assert answer.status == case["status"]
    assert headers(answer) == {"content-type": "text/xml", "x-amzn-requestid": "r-1", **retry_after(case)}
    assert (b"</Message><Detail/></Error>" in answer.body) is (case["service"] == "sqs")
    seen = parsed("query", answer, case["service"])
    assert seen["ResponseMetadata"]["RequestId"] == "r-1"
    error = {name: seen["Error"][name] for name in ("Code", "Type", "Message")}
    assert error == {"Code": case["wire"], "Type": side(case), "Message": case.get("query_message", "text")}


def test_the_whole_xml_of_an_error() -> None:
    assert render_error_xml("sqs", RequestError("InvalidAddress", "a<b"), "r-1").body == (
        b'<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><Error>'
        b"<Type>Sender</Type><Code>InvalidAddress</Code><Message>a&lt;b</Message><Detail/></Error>"
        b"<RequestId>r-1</RequestId></ErrorResponse>"
    )
    assert render_error_xml("sns", RequestError("NotFound", "Topic does not exist"), "r-1").body == (
        b'<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type>'
        b"<Code>NotFound</Code><Message>Topic does not exist</Message></Error>"
        b"<RequestId>r-1</RequestId></ErrorResponse>"
    )


def test_query_for_a_client_that_accepts_json() -> None:
    answer = render_error_query_json("sqs", RequestError("QueueDoesNotExist", ""), "r-1")
    text = "The specified queue does not exist for this wsdl version."
    error = {"Code": "AWS.SimpleQueueService.NonExistentQueue", "Message": text, "Type": "Sender"}
    assert json.loads(answer.body) == {"Error": error, "RequestId": "r-1"}
    assert headers(answer)["content-type"] == "application/json"


def test_an_error_without_text_has_no_message_in_json() -> None:
    answer = render_error_json("sqs", RequestError("SerializationException"), "r-1")
    assert json.loads(answer.body) == {"__type": "com.amazon.coral.service#SerializationException"}


@pytest.mark.parametrize("text", [HARD_TEXT, "\x00\ufffe", "\ud800"], ids=["hard", "impossible in XML", "surrogate"])
def test_texts_that_quote_what_was_sent(text: str) -> None:
    error = RequestError("InvalidParameterValue", text)
    readable = text.replace("\ud800", "?")
    assert json.loads(render_error_json("sqs", error, "r-1").body)["message"] == readable
    assert json.loads(render_error_query_json("sqs", error, "r-1").body)["Error"]["Message"] == readable
    seen = parsed("query", render_error_xml("sqs", error, "r-1"), "sqs")["Error"]["Message"]
    assert seen == text.translate({0: "�", 0xFFFE: "�", 0xD800: "�"})


FAILURES: list[tuple[BaseException, int, str, str, str | None]] = [
    (StoreUnavailable("10.0.0.1 is away"), 503, "ServiceUnavailable", "ServiceUnavailableException", "500"),
    (StoreAway("10.0.0.1 is away"), 503, "ServiceUnavailable", "ServiceUnavailableException", "5000"),
    (StoreFull("/data"), 503, "ServiceUnavailable", "ServiceUnavailableException", "5000"),
    (OutcomeUnknown("lost"), 503, "ServiceUnavailable", "ServiceUnavailableException", "500"),
    (KeyError("secret"), 500, "InternalError", "InternalFailure", None),
    (RequestError("NoSuchCode", "secret"), 500, "InternalError", "InternalFailure", None),
]


@pytest.mark.parametrize(("error", "status", "wire", "shape", "retry_after_ms"), FAILURES, ids=repr)
def test_a_failure_of_ours(
    error: BaseException, status: int, wire: str, shape: str, retry_after_ms: str | None
) -> None:
    json_answer = render_error_json("sqs", error, "r-1")
    assert headers(json_answer)["x-amzn-query-error"] == f"{wire};Receiver"
    assert json.loads(json_answer.body)["__type"] == f"com.amazon.coral.service#{shape}"
    for answer in (json_answer, render_error_xml("sns", error, "r-1"), render_error_query_json("sts", error, "r-1")):
        assert answer.status == status
        assert wire.encode() in answer.body + str(answer.headers).encode()
        assert headers(answer).get("x-amz-retry-after") == retry_after_ms
        assert not any(leak in answer.body for leak in (b"secret", b"10.0.0.1", b"/data", b"lost"))


@pytest.mark.parametrize(
    ("service", "code", "wire"),
    [
        ("sqs", "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"),
        ("sqs", "InvalidMessageContents", "InvalidMessageContents"),
        ("sqs", "EmptyValue", "EmptyValue"),
        ("sqs", "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"),
        ("sns", "InvalidParameter", "InvalidParameter"),
        ("sqs", "NoSuchCode", "InternalError"),
    ],
)
def test_the_code_of_a_failed_batch_entry(service: ServiceName, code: str, wire: str) -> None:
    assert wire_code(service, code) == wire


@pytest.mark.parametrize("service", SERVICES)
def test_every_modelled_error_is_known(service: ServiceName) -> None:
    model = botocore_model(service)
    shapes: list[Any] = [model.shape_for(name) for name in model.shape_names]
    modelled = {
        shape.error_code: shape.metadata.get("error", {}) for shape in shapes if shape.metadata.get("exception")
    }
    assert modelled.keys() <= set(known_codes(service))
    for code, trait in modelled.items():
        if trait:
            assert render_error_xml(service, RequestError(code), "r-1").status == trait["httpStatusCode"], code


CODES = {name: set(known_codes(name)) for name in SERVICES}
EVERYWHERE = CODES["sqs"] | CODES["sns"] | CODES["sts"]
ON_A_TERMINAL = {"EntityAlreadyExists", "LimitExceeded", "NoSuchAccount", "NoSuchEntity"}
"""Faults of the operator's command, which never reach a client."""

ALLOWED = {
    "cns_common": EVERYWHERE | ON_A_TERMINAL,
    "cqs": CODES["sqs"],
    "cns": CODES["sns"],
    "cns_backend": EVERYWHERE,
    "workers": EVERYWHERE,
    "cns_server": EVERYWHERE,
    "cns_cli": EVERYWHERE,
}
"""Codes by package; `cns_receiver` is a test tool with codes of its own."""


@pytest.mark.parametrize("package", ALLOWED)
def test_every_code_that_is_raised_is_known(package: str) -> None:
    unknown = [where for code, where in raised_codes(ROOT / package) if code not in ALLOWED[package]]
    assert unknown == []


def raised_codes(folder: Path) -> Iterator[tuple[str, str]]:
    """Each literal code of a RequestError, and its file and line."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="RequestError"), args=[ast.Constant(value=str(code)), *_]):
                    yield code, f"{path.relative_to(ROOT)}:{node.lineno} {code}"
