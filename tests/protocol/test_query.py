"""AWS Query, read from forms and written as XML or JSON: tables of cases, and properties."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cns_common.aws.protocol.models import load_service
from cns_common.aws.protocol.names import SQS_QUERY_NAMES, XML_DECLARATIONS, XML_NAMESPACES
from cns_common.aws.protocol.xml import escape
from cns_common.errors import RequestError
from tests.protocol.support import botocore_model, read_cases

TABLE = read_cases("query.json")


def title(case: dict[str, Any]) -> str:
    return f"{case['service']} {case['operation']} {case.get('form', case.get('xml', ''))}"


@pytest.mark.spec("query.queue-attributes", "query.tags", "query.tag-keys", "query.attribute-names")
@pytest.mark.spec("query.system-attribute-names", "query.message-attribute-names", "query.permissions")
@pytest.mark.parametrize("case", TABLE["requests"], ids=title)
def test_a_form_is_read(case: dict[str, Any]) -> None:
    operation = load_service(case["service"]).operations[case["operation"]]
    assert operation.parse_query(parse_qsl(case["form"], keep_blank_values=True)) == case["params"]


@pytest.mark.spec("query.numbered-from-one", "protocol.query-no-integer")
@pytest.mark.parametrize("case", TABLE["faults"], ids=title)
def test_a_form_is_refused(case: dict[str, Any]) -> None:
    operation = load_service(case["service"]).operations[case["operation"]]
    with pytest.raises(RequestError) as caught:
        operation.parse_query(parse_qsl(case["form"], keep_blank_values=True))
    assert (caught.value.code, caught.value.message) == ("MalformedInput", case["text"])


@pytest.mark.spec("protocol.empty-receive-query", "query.element-queue-url", "query.element-attribute")
@pytest.mark.spec("query.element-tag")
@pytest.mark.parametrize("case", TABLE["results"], ids=title)
def test_a_result_is_written_as_xml(case: dict[str, Any]) -> None:
    service, name = case["service"], case["operation"]
    assert load_service(service).operations[name].render_xml(case["result"], "r-1").decode() == (
        f'{XML_DECLARATIONS[service]}<{name}Response xmlns="{XML_NAMESPACES[service]}">{case["xml"]}'
        f"<ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata></{name}Response>"
    )


@pytest.mark.parametrize("case", TABLE["results"], ids=title)
def test_a_result_is_written_as_json_where_that_is_accepted(case: dict[str, Any]) -> None:
    name = case["operation"]
    written = json.loads(load_service(case["service"]).operations[name].render_query_json(case["result"], "r-1"))
    expected = {} if case["json"] is None else {f"{name}Result": case["json"]}
    assert written == {f"{name}Response": expected | {"ResponseMetadata": {"RequestId": "r-1"}}}


def test_members_keep_the_order_of_the_alphabet_in_json() -> None:
    written = load_service("sqs").operations["ReceiveMessage"].render_query_json({"Messages": [{}]}, "r-1")
    names = list(json.loads(written)["ReceiveMessageResponse"]["ReceiveMessageResult"]["messages"][0])
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain", "plain"),
        ("a&b<c>d", "a&amp;b&lt;c&gt;d"),
        ("\r\n\t", "&#xD;\n\t"),
        ("é漢😀\U0010ffff", "é漢😀\U0010ffff"),
        ("a\x00b\x1fc\ufffe\uffffd", "a�b�c��d"),
        ("\ud800", "�"),
        ("]]>", "]]&gt;"),
        ("\x85\u2028\x7f", "\x85\u2028\x7f"),
    ],
)
def test_text_in_xml(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_every_flattened_shape_of_sqs_has_a_query_name() -> None:
    model = botocore_model("sqs")
    shapes = [model.shape_for(name) for name in model.shape_names]
    assert {shape.name for shape in shapes if shape.type_name in ("list", "map")} == SQS_QUERY_NAMES.keys()


SEGMENTS = st.sampled_from(
    "SendMessageBatchRequestEntry Entries MessageAttribute Id DelaySeconds Name Value BinaryValue DataType "
    f"StringListValue 1 2 0 x member ² {'9' * 5000} ".split(" ")
)
NAMES = st.lists(SEGMENTS, max_size=7).map(".".join)
TEXTS = st.sampled_from(["", "5", "AQID", "x", "é", "9" * 5000, "\ud800"])


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(NAMES, TEXTS), max_size=6))
def test_nothing_but_a_request_error_comes_out(pairs: list[tuple[str, str]]) -> None:
    try:
        load_service("sqs").operations["SendMessageBatch"].parse_query(pairs)
    except RequestError as error:
        assert error.code == "MalformedInput"
