"""Requests as a server sees them, and two signers: botocore's and ours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from cns_common.aws.auth.request_signing import SigningCredential, sign
from cns_common.aws.auth.signature import SignedRequest, parse
from cns_common.errors import RequestError

KEY_ID = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
HOST = "localhost:4566"
SIGNED_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_MS = int(SIGNED_AT.timestamp()) * 1000
WRONG_SIGNATURE = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as a server sees it."""

    method: str = "POST"
    path: str = "/"
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def parse(self) -> SignedRequest | None:
        wire = [(name.lower().encode(), value.encode()) for name, value in self.headers]
        return parse(self.method, self.path.encode(), self.query.encode(), wire)

    def with_headers(self, **changed: str | None) -> Request:
        """Headers by name with `_` for `-`; None removes a header."""
        names = {name.replace("_", "-"): value for name, value in changed.items()}
        kept = [(name, value) for name, value in self.headers if name.lower() not in names]
        added = [(name, value) for name, value in names.items() if value is not None]
        return replace(self, headers=(*kept, *added))

    def with_query(self, query: str) -> Request:
        return replace(self, query=query)


def judge(request: Request, *, secret: str = SECRET, service: str = "sqs", now_ms: int = NOW_MS) -> SignedRequest:
    signed = request.parse()
    assert signed is not None
    signed.check(service, now_ms)
    signed.verify(secret, request.body)
    return signed


def refusal(request: Request, *, secret: str = SECRET, service: str = "sqs", now_ms: int = NOW_MS) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        judge(request, secret=secret, service=service, now_ms=now_ms)
    return caught.value.code, caught.value.message


def scoped(signature: str, names: str, service: str = "sqs") -> str:
    return (
        f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20260102/us-east-1/{service}/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}"
    )


def signed_headers(request: Request, *, service: str = "sqs", region: str = "us-east-1") -> dict[str, str]:
    return sign(
        method=request.method,
        path=request.path,
        query=request.query,
        headers=dict(request.headers),
        body=request.body,
        credential=SigningCredential(KEY_ID, SECRET, region, service),
        now_ms=NOW_MS,
    )


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A request before it is signed."""

    method: str = "POST"
    path: str = "/"
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    token: str | None = None
    service: str = "sqs"
    region: str = "us-east-1"
    expires_s: int = 300

    def aws_request(self) -> AWSRequest:
        query = f"?{self.query}" if self.query else ""
        request = AWSRequest(method=self.method, url=f"http://{HOST}{self.path}{query}", data=self.body)
        request.headers.add_header("Host", HOST)
        for name, value in self.headers:
            request.headers.add_header(name, value)
        return request

    def received(self, request: AWSRequest) -> Request:
        url = urlsplit(str(request.url))
        headers = (*request.headers.items(), ("User-Agent", "x"), ("X-Amzn-Trace-Id", "Root=1"))
        return Request(
            method=self.method, path=url.path or "/", query=url.query, headers=headers, body=request.data or b""
        )


def signed_by(signer: SigV4Auth, request: AWSRequest) -> None:
    with patch("botocore.auth.get_current_datetime", return_value=SIGNED_AT.replace(tzinfo=None)):
        signer.add_auth(request)


def botocore_header_form(draft: Draft) -> Request:
    request = draft.aws_request()
    signed_by(SigV4Auth(Credentials(KEY_ID, SECRET, draft.token), draft.service, draft.region), request)
    return draft.received(request)


def botocore_query_form(draft: Draft) -> Request:
    request = draft.aws_request()
    signer = SigV4QueryAuth(
        Credentials(KEY_ID, SECRET, draft.token), draft.service, draft.region, expires=draft.expires_s
    )
    signed_by(signer, request)
    return draft.received(request)


CREATE_QUEUE = Request(
    headers=(
        ("host", HOST),
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.CreateQueue"),
        ("x-amz-date", "20260102T030405Z"),
        ("user-agent", "not signed"),
        (
            "authorization",
            scoped(
                "95ec3e6036ae53491b23a2d3d0a82a4ce74f99d45723823b58619317517d973f",
                "content-type;host;x-amz-date;x-amz-target",
            ),
        ),
    ),
    body=b'{"QueueName":"q1"}',
)
LIST_TOPICS = Request(
    headers=(
        ("host", HOST),
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        ("x-amz-security-token", "TOKEN/+="),
        ("x-amz-date", "20260102T030405Z"),
        (
            "authorization",
            scoped(
                "5f2e954530a91a40fc897b1a8c634803c35abddacef46685e1f024203e0c8c83",
                "content-type;host;x-amz-date;x-amz-security-token",
                "sns",
            ),
        ),
    ),
    body=b"Action=ListTopics&Version=2010-03-31",
)
ODD_PATH = Request(
    method="GET",
    path="/000000000000//a/../my%20q/",
    query="b=2&a=%7E&a=1&c",
    headers=(
        ("host", HOST),
        ("x-amz-date", "20260102T030405Z"),
        (
            "authorization",
            scoped("8c0bc639b839355ada47f3e4bf5cf3bd75d406034b86a4a11192842a42f7f1a9", "host;x-amz-date"),
        ),
    ),
)
PRESIGNED = Request(
    method="GET",
    path="/000000000000/q1",
    query=(
        "Action=ReceiveMessage&Version=2012-11-05&X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Fus-east-1%2Fsqs%2Faws4_request&X-Amz-Date=20260102T030405Z"
        "&X-Amz-Expires=300&X-Amz-SignedHeaders=host&X-Amz-Security-Token=TOKEN%2F%2B%3D"
        "&X-Amz-Signature=acc12620a00e2d8c8dc0718127f9b349d21cbb636b921afaddbf8a9c2b609587"
    ),
    headers=(("host", HOST), ("user-agent", "not signed")),
)
