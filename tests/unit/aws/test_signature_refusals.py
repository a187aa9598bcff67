"""Every refusal of a signed request: its code, its text, and its place in the order."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cns_common.aws.auth.signature import parse, unknown_key
from cns_common.errors import RequestError
from tests.unit.aws.signed_requests import (
    CREATE_QUEUE,
    HOST,
    NOW_MS,
    PRESIGNED,
    SECRET,
    WRONG_SIGNATURE,
    Request,
    refusal,
)


def incomplete(text: str) -> tuple[str, str]:
    return "IncompleteSignature", text


def mismatch(text: str) -> tuple[str, str]:
    return "SignatureDoesNotMatch", text


def claiming(authorization: str, **headers: str | None) -> Request:
    return CREATE_QUEUE.with_headers(authorization=authorization, **headers)


def credential(text: str, algorithm: str = "AWS4-HMAC-SHA256") -> Request:
    names = "content-type;host;x-amz-date;x-amz-target"
    return claiming(f"{algorithm} Credential={text}, SignedHeaders={names}, Signature=ab12")


ISO = "See http://en.wikipedia.org/wiki/ISO_8601"
PLAIN = "AWS4-HMAC-SHA256 Credential=K/20260102/us-east-1/sqs/aws4_request, SignedHeaders=host;x-amz-date, Signature=ab"
REFUSALS: Mapping[str, tuple[Request, tuple[str, str]]] = {
    "not a pair": (
        claiming("Bearer abc"),
        incomplete("'abc' not a valid key=value pair (missing equal-sign) in Authorization header: 'Bearer abc'."),
    ),
    "nothing but a word": (
        claiming("allow", x_amz_date=None),
        incomplete(
            "Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' "
            "parameter. Authorization header requires 'SignedHeaders' parameter. Authorization header requires "
            "existence of either a 'X-Amz-Date' or a 'Date' header. Authorization=allow"
        ),
    ),
    "no signature": (
        claiming("AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b, Signature="),
        incomplete(
            "Authorization header requires 'Signature' parameter. "
            "Authorization=AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b, Signature="
        ),
    ),
    "credential empty": (
        claiming("AWS4-HMAC-SHA256 Credential=, SignedHeaders=b, Signature=c"),
        incomplete(
            "Authorization header requires 'Credential' parameter. "
            "Authorization=AWS4-HMAC-SHA256 Credential=, SignedHeaders=b, Signature=c"
        ),
    ),
    "a field run into another": (
        claiming("AWS4-HMAC-SHA256 Credential=a, SignedHeaders=bSignature=c"),
        incomplete(
            "Authorization header requires 'Signature' parameter. "
            "Authorization=AWS4-HMAC-SHA256 Credential=a, SignedHeaders=bSignature=c"
        ),
    ),
    "no date": (
        claiming(PLAIN, x_amz_date=None),
        incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
            f"Authorization={PLAIN}"
        ),
    ),
    "presigned, all missing": (
        PRESIGNED.with_query("X-Amz-Algorithm="),
        incomplete(
            "AWS query-string parameters must include 'X-Amz-Algorithm'. AWS query-string parameters must include "
            "'X-Amz-Credential'. AWS query-string parameters must include 'X-Amz-Signature'. AWS query-string "
            "parameters must include 'X-Amz-SignedHeaders'. AWS query-string parameters must include 'X-Amz-Date'. "
            "Re-examine the query-string parameters."
        ),
    ),
    "header and query": (
        CREATE_QUEUE.with_query(PRESIGNED.query),
        mismatch("Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."),
    ),
    "date cut": (
        CREATE_QUEUE.with_headers(x_amz_date="201"),
        incomplete(f"Date must be in ISO-8601 'basic format'. Got '201'. {ISO}"),
    ),
    "date that is none": (
        CREATE_QUEUE.with_headers(x_amz_date="20260231T030405Z"),
        incomplete(f"Date must be in ISO-8601 'basic format'. Got '20260231T030405Z'. {ISO}"),
    ),
    "date twice": (
        Request(headers=(*CREATE_QUEUE.headers, ("x-amz-date", "20260102T030405Z"))),
        incomplete(f"Date must be in ISO-8601 'basic format'. Got '20260102T030405Z,20260102T030405Z'. {ISO}"),
    ),
    "too old": (
        CREATE_QUEUE.with_headers(x_amz_date="20260102T024904Z"),
        mismatch(
            "Signature expired: 20260102T024904Z is now earlier than 20260102T024905Z (20260102T030405Z - 15 min.)"
        ),
    ),
    "too new": (
        CREATE_QUEUE.with_headers(x_amz_date="20260102T031906Z"),
        mismatch(
            "Signature not yet current: 20260102T031906Z is still later than 20260102T031905Z "
            "(20260102T030405Z + 15 min.)"
        ),
    ),
    "presigned for 90 seconds": (
        PRESIGNED.with_query(PRESIGNED.query.replace("Expires=300", "Expires=90").replace("T030405Z", "T030234Z")),
        mismatch(
            "Signature expired: 20260102T030234Z is now earlier than 20260102T030235Z (20260102T030405Z - 90 sec.)"
        ),
    ),
    "host not signed": (
        claiming(PLAIN.replace("host;", "")),
        mismatch("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."),
    ),
    "target not signed": (
        claiming(PLAIN),
        mismatch("'x-amz-target' must be a 'SignedHeader' in the AWS Authorization."),
    ),
    "presigned with a target": (
        PRESIGNED.with_headers(x_amz_target="AmazonSQS.DeleteQueue"),
        mismatch("'x-amz-target' must be a 'SignedHeader' in the AWS Authorization."),
    ),
    "algorithm": (
        credential("a/b/c/d", algorithm="AWS4-HMAC-SHA25"),
        incomplete("Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA25' (only AWS4-HMAC-SHA256 for now). "),
    ),
    "algorithm alone": (
        credential("a/20260102/us-east-1/sqs/aws4_request", algorithm="AWS4-ECDSA-P256-SHA256"),
        incomplete("Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256' (only AWS4-HMAC-SHA256 for now). "),
    ),
    "credential of six": (
        credential("a/20260102/us-east-1/sqs/aws4_request/f"),
        incomplete(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
            "got 'a/20260102/us-east-1/sqs/aws4_request/f'"
        ),
    ),
    "credential of four": (
        credential("a/b/c/d"),
        incomplete(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
            "got 'a/b/c/d'"
        ),
    ),
    "everything in the scope": (
        credential("a/b/C_d/sns/e"),
        mismatch(
            "Credential should be scoped to a valid region, not 'C_d'. "
            "Credential should be scoped to correct service: 'sqs'. "
            "Credential should be scoped with a valid terminator: 'aws4_request', not 'e'. "
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            "'b' != '20260102', from '20260102T030405Z'."
        ),
    ),
    "no region": (
        credential("a/20260102//sqs/aws4_request"),
        mismatch("Credential should be scoped to a valid region, not ''. "),
    ),
    "a region that no queue's address can name": (
        credential(f"a/20260102/{'r' * 65}/sqs/aws4_request"),
        mismatch(f"Credential should be scoped to a valid region, not '{'r' * 65}'. "),
    ),
    "another service": (
        credential("a/20260102/us-east-1/s3/aws4_request"),
        mismatch("Credential should be scoped to correct service: 'sqs'. "),
    ),
    "terminator": (
        credential("a/20260102/us-east-1/sqs/aws5_request"),
        mismatch("Credential should be scoped with a valid terminator: 'aws4_request', not 'aws5_request'. "),
    ),
    "yesterday's scope": (
        credential("a/20260101/us-east-1/sqs/aws4_request"),
        mismatch(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            "'20260101' != '20260102', from '20260102T030405Z'."
        ),
    ),
    "any region that could be one": (
        credential("a/20260102/mars-north-7/sqs/aws4_request"),
        mismatch(WRONG_SIGNATURE),
    ),
}


@pytest.mark.spec(
    "refused.not-parsable",
    "refused.part-missing",
    "refused.no-date",
    "refused.date-malformed",
    "refused.host-unsigned",
    "refused.algorithm",
    "refused.credential-shape",
    "refused.scope-region",
    "refused.scope-service",
    "refused.scope-terminator",
    "refused.scope-date",
)
@pytest.mark.parametrize(("request_", "expected"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(request_: Request, expected: tuple[str, str]) -> None:
    assert refusal(request_) == expected


@pytest.mark.spec("refused.order")
def test_each_fault_is_found_before_those_that_follow_it() -> None:
    later = "AWS3 Credential=a/b, SignedHeaders=x, Signature=z"
    assert refusal(claiming("Bearer x", x_amz_date="201"))[1].startswith("'x' not a valid key=value pair")
    assert refusal(claiming("Bearer x=y", x_amz_date="201"))[1].startswith("Authorization header requires")
    assert refusal(claiming(later, x_amz_date="201"))[1].startswith("Date must be")
    assert refusal(claiming(later, x_amz_date="20200102T030405Z"))[1].startswith("Signature expired")
    assert refusal(claiming(later))[1].startswith("'Host' or")
    covered = later.replace("SignedHeaders=x", "SignedHeaders=host;x-amz-date;x-amz-target")
    assert refusal(claiming(covered))[1].startswith("Unsupported AWS 'algorithm'")
    algorithm = covered.replace("AWS3", "AWS4-HMAC-SHA256")
    assert refusal(claiming(algorithm))[1].startswith("Credential must have exactly 5")


def test_unknown_key() -> None:
    error = unknown_key()
    assert (error.code, error.message) == (
        "InvalidClientTokenId",
        "The security token included in the request is invalid.",
    )


_bytes = st.binary(max_size=40)
_wire_name = st.one_of(
    st.sampled_from([b"authorization", b"x-amz-date", b"date", b"host", b"x-amz-content-sha256"]), _bytes
)
_wire_value = st.one_of(
    st.sampled_from([PLAIN.encode(), b"20260102T030405Z", b"AWS4-HMAC-SHA256 Signature=1", b"Fri, 99 Jan 2026"]), _bytes
)
_wire_query = st.one_of(
    _bytes,
    st.lists(
        st.one_of(
            _bytes,
            *(
                st.builds(lambda name, value: name + b"=" + value, st.just(name), _wire_value)
                for name in (b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Signature", b"X-Amz-SignedHeaders")
            ),
            st.sampled_from([b"X-Amz-Date=20260102T030405Z", b"X-Amz-Expires=5"]),
        )
    ).map(b"&".join),
)


@given(_wire_query, st.lists(st.tuples(_wire_name, _wire_value), max_size=6), _bytes)
def test_whatever_is_sent_ends_in_a_refusal(query: bytes, headers: list[tuple[bytes, bytes]], path: bytes) -> None:
    try:
        signed = parse("POST", path, query, headers)
        if signed is None:
            return
        signed.check(signed.service, NOW_MS)
        signed.verify(SECRET, b"")
    except RequestError as error:
        assert error.code in {"IncompleteSignature", "SignatureDoesNotMatch"}
    else:
        raise AssertionError("nothing here is signed")


@given(st.text(max_size=60))
def test_any_date_is_read_or_refused(text: str) -> None:
    try:
        Request(headers=(("authorization", PLAIN), ("host", HOST), ("date", text))).parse()
    except RequestError as error:
        assert error.code == "IncompleteSignature"
