"""botocore's signers against our verifier and our signer, on generated requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from botocore.auth import SIGNED_HEADERS_BLACKLIST
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.aws.signed_requests import (
    HOST,
    Draft,
    Request,
    botocore_header_form,
    botocore_query_form,
    judge,
    signed_headers,
)

# botocore strips by str.split(), which takes more characters for blanks than a header may contain.
_printable = st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"))
_value = st.text(st.one_of(st.sampled_from(" \t\"',;%:=é☃\U0001f600"), _printable), max_size=30)
_name = st.from_regex(r"[A-Za-z%][A-Za-z0-9%-]{0,12}", fullmatch=True).filter(
    lambda name: (
        name.lower() not in {*SIGNED_HEADERS_BLACKLIST, "host", "authorization", "date"}
        and not name.lower().startswith("x-amz")
    )
)
_amz_name = st.sampled_from(["X-Amz-Target", "x-amz-sns-topic-arn", "X-AMZ-Thing"])
_headers = st.lists(st.tuples(st.one_of(_name, _amz_name), _value), max_size=6).map(tuple)
_segment = st.text(st.sampled_from("ab.~-_%2F+ @:=,!*'()"), max_size=6).map(lambda text: text.replace(" ", "%20"))
_path = st.lists(st.one_of(_segment, st.sampled_from(["", ".", "..", "q.fifo"])), max_size=6).map(
    lambda segments: "/" + "/".join(segments)
)
_query = st.text(st.sampled_from("abAB12.~-_%+&&==/:,"), max_size=30)
_parameters = st.lists(
    st.tuples(
        st.from_regex(r"[A-Za-z.]{1,8}", fullmatch=True),
        st.text(st.sampled_from("aZ09-_.~%7E%2f*+"), max_size=12),
    ),
    max_size=5,
    unique_by=lambda pair: pair[0],
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))
_drafts = st.builds(
    Draft,
    method=st.sampled_from(["GET", "POST", "PUT"]),
    path=_path,
    headers=_headers,
    token=st.one_of(st.none(), st.text(st.sampled_from("aZ0/+="), min_size=1, max_size=20)),
    service=st.sampled_from(["sqs", "sns", "sts"]),
    region=st.sampled_from(["us-east-1", "eu-central-1", "local"]),
)


@pytest.mark.spec("sign.header-form", "sign.header-values", "sign.path", "sign.query-string", "sign.token")
@given(_drafts, _query, st.binary(max_size=64))
@example(Draft(headers=(("X-Amz-Target", " a \t  b "), ("X-Two", "1"), ("x-two", " 2 "))), "", b"")
def test_header_form_agrees_with_botocore(draft: Draft, query: str, body: bytes) -> None:
    judge(botocore_header_form(replace(draft, query=query, body=body)), service=draft.service)


@pytest.mark.spec("sign.query-form", "sign.presigned-payload", "sign.token")
@given(_drafts, _parameters)
def test_query_form_agrees_with_botocore(draft: Draft, query: str) -> None:
    judge(botocore_query_form(replace(draft, query=query)), service=draft.service)


@given(_drafts, _query, st.binary(max_size=64))
def test_our_signer_agrees_with_botocore(draft: Draft, query: str, body: bytes) -> None:
    headers = tuple({name.lower(): value for name, value in draft.headers}.items())
    once_each = replace(draft, headers=headers, token=None, query=query, body=body)
    theirs = {name.lower(): value for name, value in botocore_header_form(once_each).headers}
    request = Request(method=draft.method, path=draft.path, query=query, headers=(("host", HOST), *headers), body=body)
    ours = signed_headers(request, service=draft.service, region=draft.region)
    assert ours == {"x-amz-date": theirs["x-amz-date"], "authorization": theirs["authorization"]}


@pytest.fixture
def _far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.spec("sign.date")
@pytest.mark.usefixtures("_far_from_greenwich")
def test_the_date_header_stands_in_for_x_amz_date() -> None:
    request = botocore_header_form(Draft(headers=(("Date", "anything"),)))
    assert dict(request.headers)["Date"] == "Fri, 02 Jan 2026 03:04:05 -0000"
    judge(request)
