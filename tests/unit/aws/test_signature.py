"""Signature verification: AWS's own vectors, and which changes of a request break its signature."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cns_common.errors import RequestError
from tests.unit.aws.signed_requests import (
    CREATE_QUEUE,
    HOST,
    KEY_ID,
    LIST_TOPICS,
    NOW_MS,
    ODD_PATH,
    PRESIGNED,
    WRONG_SIGNATURE,
    Draft,
    Request,
    botocore_header_form,
    judge,
    refusal,
    scoped,
    signed_headers,
)

VECTORS = [
    pytest.param(CREATE_QUEUE, "sqs", id="json"),
    pytest.param(LIST_TOPICS, "sns", id="form with session token"),
    pytest.param(ODD_PATH, "sqs", id="odd path and query"),
    pytest.param(PRESIGNED, "sqs", id="presigned"),
]


@pytest.mark.spec("sign.canonical-request", "sign.key", "sign.path", "sign.query-string", "sign.token")
@pytest.mark.parametrize(("request_", "service"), VECTORS)
def test_vectors_made_with_botocore(request_: Request, service: str) -> None:
    signed = judge(request_, service=service)
    assert (signed.key_id, signed.region, signed.service) == (KEY_ID, "us-east-1", service)


@pytest.mark.parametrize(
    "request_",
    [Request(), Request(headers=(("host", HOST), ("x-amz-date", "20260102T030405Z"))), Request(query="X-Amz-Date=1")],
)
def test_nothing_signed(request_: Request) -> None:
    assert request_.parse() is None


SAME_CLAIM = {
    "no blanks": ("{algorithm} {credential},{names},{signature}"),
    "signature first": ("{algorithm} {signature}, {credential}, {names}"),
    "blanks for commas": ("{algorithm} {names} {credential} {signature}"),
    "a field nobody knows": ("{algorithm} {credential}, Colour=red, {names}, {signature}"),
    "too long to be kept": ("{algorithm} {credential}, Colour=" + "r" * 2000 + ", {names}, {signature}"),
}


@pytest.mark.spec("sign.any-order")
@pytest.mark.parametrize("form", SAME_CLAIM.values(), ids=SAME_CLAIM.keys())
def test_authorization_fields_come_in_any_order(form: str) -> None:
    algorithm, credential, names, signature = dict(CREATE_QUEUE.headers)["authorization"].replace(",", "").split()
    header = form.format(algorithm=algorithm, credential=credential, names=names, signature=signature)
    judge(CREATE_QUEUE.with_headers(authorization=header))


@pytest.mark.spec("sign.query-spelling")
def test_a_query_may_be_signed_in_another_spelling_than_it_is_sent() -> None:
    headers = {"host": HOST}
    added = signed_headers(Request(method="GET", query="Action=List%20Queues&a=~", headers=tuple(headers.items())))
    sent = Request(method="GET", query="a=%7e&Action=List+Queues", headers=(*headers.items(), *added.items()))
    judge(sent)
    assert refusal(sent.with_query("a=%7e&Action=List%2BQueues")) == ("SignatureDoesNotMatch", WRONG_SIGNATURE)


# Requests that were changed after they were signed. Each must be refused.
FORGERIES = {
    "method": replace(CREATE_QUEUE, method="PUT"),
    "path": replace(CREATE_QUEUE, path="/000000000000/q1"),
    "query": CREATE_QUEUE.with_query("Action=DeleteQueue"),
    "body": replace(CREATE_QUEUE, body=b'{"QueueName":"q2"}'),
    "no body": replace(CREATE_QUEUE, body=b""),
    "signed header changed": CREATE_QUEUE.with_headers(x_amz_target="AmazonSQS.DeleteQueue"),
    "signed header taken out": CREATE_QUEUE.with_headers(x_amz_target=None),
    "signed header given twice": Request(
        headers=(*CREATE_QUEUE.headers, ("x-amz-target", "AmazonSQS.DeleteQueue")), body=CREATE_QUEUE.body
    ),
    "host": CREATE_QUEUE.with_headers(host="localhost"),
    "date": CREATE_QUEUE.with_headers(x_amz_date="20260102T030406Z"),
    "region": CREATE_QUEUE.with_headers(
        authorization=dict(CREATE_QUEUE.headers)["authorization"].replace("us-east-1", "us-east-2")
    ),
    "presigned action": PRESIGNED.with_query(PRESIGNED.query.replace("ReceiveMessage", "DeleteQueue")),
    "presigned parameter added": PRESIGNED.with_query(f"{PRESIGNED.query}&Action=DeleteQueue"),
    "presigned parameter taken out": PRESIGNED.with_query(PRESIGNED.query.replace("&X-Amz-Expires=300", "")),
    "presigned body": Request(
        method="GET", path=PRESIGNED.path, query=PRESIGNED.query, headers=PRESIGNED.headers, body=b"Action=DeleteQueue"
    ),
    "signature cut": CREATE_QUEUE.with_headers(authorization=dict(CREATE_QUEUE.headers)["authorization"][:-1]),
    "signature in upper case": CREATE_QUEUE.with_headers(
        authorization=scoped(
            "95EC3E6036AE53491B23A2D3D0A82A4CE74F99D45723823B58619317517D973F",
            "content-type;host;x-amz-date;x-amz-target",
        )
    ),
}


@pytest.mark.spec("sign.canonical-request", "sign.named-headers", "sign.payload-hash", "refused.wrong-signature")
@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES.keys())
def test_forgeries(forged: Request) -> None:
    assert refusal(forged) == ("SignatureDoesNotMatch", WRONG_SIGNATURE)


def test_another_secret() -> None:
    assert refusal(CREATE_QUEUE, secret="another") == ("SignatureDoesNotMatch", WRONG_SIGNATURE)


EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.spec("sign.content-sha256")
@pytest.mark.parametrize(
    ("claimed", "body", "accepted"),
    [
        (EMPTY_SHA256, b"", True),
        (EMPTY_SHA256, b"x", False),
        pytest.param("UNSIGNED-PAYLOAD", b"", False, marks=pytest.mark.spec("sign.unsigned-payload")),
        ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", b"", False),
        ("", b"", False),
    ],
)
def test_a_claimed_payload_hash_is_compared_with_the_body(claimed: str, body: bytes, accepted: bool) -> None:
    """botocore, like every SDK, signs the claimed hash whatever the body is."""
    signed = botocore_header_form(Draft(headers=(("X-Amz-Content-SHA256", claimed),), body=body))
    if accepted:
        judge(signed)
    else:
        assert refusal(signed) == ("SignatureDoesNotMatch", WRONG_SIGNATURE)


def minutes_later(minutes: float) -> int:
    return NOW_MS + int(minutes * 60_000)


@pytest.mark.spec("sign.window")
def test_window_bounds() -> None:
    judge(CREATE_QUEUE, now_ms=minutes_later(15) + 999)
    judge(CREATE_QUEUE, now_ms=minutes_later(-15))


EXPIRY = {
    "X-Amz-Expires=60": 1,
    "X-Amz-Expires=1000": 15,
    "X-Amz-Expires=604800": 15,
    "X-Amz-Expires=0000000000604800": 15,
    "X-Amz-Other=1": 15,
}


@pytest.mark.spec("sign.expires", "sign.expires-shorter")
@pytest.mark.parametrize(("expires", "good_for_minutes"), EXPIRY.items())
def test_a_presigned_url_is_good_for_15_minutes_at_most(expires: str, good_for_minutes: int) -> None:
    signed = PRESIGNED.with_query(PRESIGNED.query.replace("X-Amz-Expires=300", expires)).parse()
    assert signed is not None
    signed.check("sqs", minutes_later(good_for_minutes))
    with pytest.raises(RequestError, match="Signature expired"):
        signed.check("sqs", minutes_later(good_for_minutes) + 1000)


TOO_LONG = (
    "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than "
    "604800 seconds"
)
NO_EXPIRY = {
    "0": "X-Amz-Expires must be at least 1",
    "-1": "X-Amz-Expires must be non-negative",
    "-" + "9" * 5000: "X-Amz-Expires must be non-negative",
    "604801": TOO_LONG,
    "9" * 5000: TOO_LONG,
    "soon": "X-Amz-Expires should be a number",
    "": "X-Amz-Expires should be a number",
    "1.5": "X-Amz-Expires should be a number",
    "%D9%A3": "X-Amz-Expires should be a number",  # a digit of another script
}


@pytest.mark.spec("sign.expires-range")
@pytest.mark.parametrize(("expires", "text"), NO_EXPIRY.items(), ids=range(len(NO_EXPIRY)))
def test_an_expiry_out_of_its_range_is_refused(expires: str, text: str) -> None:
    query = PRESIGNED.query.replace("X-Amz-Expires=300", f"X-Amz-Expires={expires}")
    with pytest.raises(RequestError) as caught:
        PRESIGNED.with_query(query).parse()
    assert (caught.value.code, caught.value.message) == ("IncompleteSignature", text)
