"""AWS JSON 1.0, read and written: tables of cases, and properties."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cns_common.aws.protocol.json_checked import compile_checked_parse
from cns_common.aws.protocol.models import load_service
from cns_common.aws.protocol.shapes import read_signatures
from cns_common.errors import RequestError
from tests.protocol.support import read_cases

TABLE = read_cases("json10.json")
SQS = load_service("sqs").operations


@pytest.mark.parametrize("case", TABLE["requests"], ids=lambda case: case["body"])
def test_a_body_is_read(case: dict[str, Any]) -> None:
    assert SQS[case["operation"]].parse_json(case["body"].encode()) == case["params"]


@pytest.mark.spec("protocol.body-not-json", "protocol.body-no-object", "protocol.syntax-text")
@pytest.mark.spec("protocol.wrong-type-string", "protocol.wrong-type-number", "protocol.wrong-type-boolean")
@pytest.mark.spec("protocol.wrong-type-list", "protocol.wrong-type-map")
@pytest.mark.parametrize("case", TABLE["faults"], ids=lambda case: case["body"])
def test_a_body_is_refused_in_the_words_of_aws(case: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        SQS[case["operation"]].parse_json(case["body"].encode())
    assert (caught.value.code, caught.value.message) == ("SerializationException", case["text"])


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"Future":' + b"[" * 100_000,
        b'{"Future":' * 100_000,
        b'{"MessageBody":"\xff"}',
        b'{"DelaySeconds":' + b"9" * 10_000 + b"}",
        b"\xef\xbb\xbf{}",
        b"\x00",
    ],
    ids=["lists", "unknown lists", "maps", "not UTF-8", "long number", "byte order mark", "nul"],
)
def test_a_hostile_body_is_the_callers_fault(body: bytes) -> None:
    with pytest.raises(RequestError):
        SQS["SendMessage"].parse_json(body)


@pytest.mark.parametrize("case", TABLE["results"], ids=lambda case: case["body"])
def test_a_result_is_written(case: dict[str, Any]) -> None:
    assert SQS[case["operation"]].render_json(case["result"]) == case["body"].encode()


TEXTS = st.text(max_size=5)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
VALUES = st.fixed_dictionaries({}, optional={"DataType": TEXTS, "StringValue": TEXTS, "BinaryValue": st.just("AQID")})
ENTRIES = st.fixed_dictionaries(
    {"Id": TEXTS},
    optional={
        "MessageBody": TEXTS | ANYTHING,
        "DelaySeconds": st.integers(-(2**32), 2**32) | ANYTHING,
        "MessageAttributes": st.dictionaries(TEXTS, VALUES, max_size=2) | ANYTHING,
        "Unknown": ANYTHING,
    },
)
REQUESTS = st.fixed_dictionaries({}, optional={"QueueUrl": TEXTS | ANYTHING, "Entries": st.lists(ENTRIES, max_size=3)})

PARSE_CHECKED = compile_checked_parse(
    next(known.input for known in read_signatures("sqs") if known.name == "SendMessageBatch")
)


def outcome(parse: Callable[[bytes], dict[str, Any]], body: bytes) -> dict[str, Any] | str:
    try:
        return parse(body)
    except RequestError as error:
        return str(error)


@settings(deadline=None)
@given(request=REQUESTS)
def test_the_fast_way_and_the_slow_way_agree(request: dict[str, Any]) -> None:
    body = json.dumps(request).encode()
    assert outcome(SQS["SendMessageBatch"].parse_json, body) == outcome(PARSE_CHECKED, body)


@settings(deadline=None)
@given(body=st.binary(max_size=40) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_nothing_but_a_request_error_comes_out(body: bytes) -> None:
    outcome(SQS["SendMessageBatch"].parse_json, body)
