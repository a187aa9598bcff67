"""Signatures: those of AWS's own clients are accepted, and no request that was changed after signing."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from cns_common.aws.auth.request_signing import SigningCredential, sign
from tests.integration.cqs.door import FORM, JSON, OWNER, REGION, SQS_VERSION, Door
from tests.integration.cqs.sqs import ACCOUNT
from tests.integration.cqs.sqs_wire import CORAL
from tests.unit.aws.signed_requests import WRONG_SIGNATURE

spec = pytest.mark.spec
MISMATCH = (403, "SignatureDoesNotMatch", "Sender")
LIST = urlencode({"Action": "ListQueues", "Version": SQS_VERSION})


@spec("sign.header-form", "sign.proxy-headers", "sign.host-port", "sign.form-is-payload", "sign.payload-hash")
async def test_signed_by_botocore(door: Door) -> None:
    request = AWSRequest("POST", door.url + "/", headers={"content-type": FORM}, data=LIST.encode())
    SigV4Auth(Credentials(OWNER.key_id, OWNER.secret), "sqs", "us-east-1").add_auth(request)
    signed = dict(request.headers)
    changed = {"user-agent": "a proxy", "x-amzn-trace-id": "Root=1-67891233-abcdef012345678912345678"}
    assert (await door.send("POST", "/", signed | changed, LIST.encode())).status == 200
    other = await door.send("POST", "/", signed, LIST.replace("ListQueues", "PurgeQueue").encode())
    assert other.query_fault == (*MISMATCH, WRONG_SIGNATURE)
    as_query = await door.send("POST", "/", signed, b"", query=LIST)
    assert as_query.query_fault[1] == "SignatureDoesNotMatch"


def presigned(door: Door, token: str | None = None) -> str:
    """The query string of a signed URL that lists queues."""
    request = AWSRequest("GET", f"{door.url}/?{LIST}")
    SigV4QueryAuth(Credentials(OWNER.key_id, OWNER.secret, token), "sqs", "us-east-1", expires=3_600).add_auth(request)
    assert request.url is not None
    return str(request.url.partition("?")[2])


@spec("sign.query-form", "sign.presigned-payload", "sign.signature-left-out")
@pytest.mark.parametrize("token", [None, pytest.param("TOKEN/+=", marks=spec("sign.token"))])
async def test_presigned_by_botocore(door: Door, token: str | None) -> None:
    query = presigned(door, token)
    assert (await door.send("GET", "/", query=query)).status == 200
    changed = await door.send("GET", "/", query=query.replace("ListQueues", "CreateQueue&QueueName=q"))
    assert changed.query_fault == (*MISMATCH, WRONG_SIGNATURE)


@spec("sign.region")
@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "mars-north-7"])
async def test_every_region_is_answered(door: Door, region: str) -> None:
    created = await door.query("CreateQueue", {"QueueName": "q"}, region=region)
    assert created.status == 200
    arn = await door.query("GetQueueAttributes", {"QueueUrl": "q", "AttributeName.1": "QueueArn"}, region=region)
    assert arn.texts("GetQueueAttributesResult/Attribute/Value") == [f"arn:aws:sqs:{region}:{ACCOUNT}:q"]


@pytest.mark.parametrize(
    ("service", "status", "namespace"),
    [
        ("sqs", 200, b"queue.amazonaws.com"),
        ("sns", 400, b"sns.amazonaws.com"),
        ("sts", 400, b"sts.amazonaws.com"),
    ],
)
@spec("sign.service-names", "sign.service-by-scope")
async def test_the_scope_says_which_service_is_called(door: Door, service: str, status: int, namespace: bytes) -> None:
    reply = await door.signed("GET", "/", {}, query="Action=ListQueues", service=service)
    assert (reply.status, namespace in reply.body) == (status, True)


@spec("sign.service-by-version")
@pytest.mark.parametrize(
    ("version", "namespace"),
    [
        (SQS_VERSION, b"queue.amazonaws.com"),
        ("2010-03-31", b"sns.amazonaws.com"),
        ("2011-06-15", b"sts.amazonaws.com"),
    ],
)
@pytest.mark.parametrize("service", ["sqs", "sns"])
async def test_the_version_outweighs_the_scope(door: Door, service: str, version: str, namespace: bytes) -> None:
    query = urlencode({"Action": "Nonsense", "Version": version})
    assert namespace in (await door.signed("GET", "/", {}, query=query, service=service)).body


@pytest.mark.parametrize(
    ("path", "headers", "namespace"),
    [
        pytest.param("/000000000000/q", {}, b"queue.amazonaws.com", marks=spec("sign.service-by-place")),
        pytest.param(
            "/", {"host": "sqs.us-east-1.example.org"}, b"queue.amazonaws.com", marks=spec("sign.service-by-place")
        ),
        pytest.param("/", {"host": "sts.example.org"}, b"sts.amazonaws.com", marks=spec("sign.service-by-place")),
        pytest.param("/", {}, b"sns.amazonaws.com", marks=spec("sign.service-by-place")),
    ],
)
async def test_the_default_service(door: Door, path: str, headers: dict[str, str], namespace: bytes) -> None:
    assert namespace in (await door.send("GET", path, headers, query="Action=Nonsense")).body


@spec("sign.service-by-target")
async def test_the_target_outweighs_all(door: Door) -> None:
    target = {"content-type": JSON, "x-amz-target": "AmazonSQS.ListQueues"}
    reply = await door.signed("POST", "/", target, b"{}", query="Version=2010-03-31")
    assert (reply.status, reply.headers["content-type"]) == (200, JSON)


@spec("sign.named-headers")
async def test_a_signed_header_that_is_absent_counts_as_empty(door: Door) -> None:
    fields = {"host": door.host, "x-extra": ""}
    now_ms = door.sqs.clock.wall_ms()
    fields |= sign(
        method="GET",
        path="/",
        query=LIST,
        headers=fields,
        body=b"",
        credential=SigningCredential(OWNER.key_id, OWNER.secret, REGION, "sqs"),
        now_ms=now_ms,
    )
    for extra, status in ((None, 200), ("", 200), ("x", 403)):
        sent = {name: value for name, value in fields.items() if name != "x-extra"}
        sent |= {} if extra is None else {"x-extra": extra}
        assert (await door.send("GET", "/", sent, query=LIST)).status == status


@spec("sign.amz-headers")
async def test_headers_of_aws_must_be_signed(door: Door) -> None:
    signed = AWSRequest("GET", f"{door.url}/?{LIST}")
    SigV4Auth(Credentials(OWNER.key_id, OWNER.secret), "sqs", REGION).add_auth(signed)
    added = {**dict(signed.headers), "x-amz-target": "AmazonSQS.ListQueues"}
    reply = await door.send("GET", "/", added, query=LIST)
    text = "'x-amz-target' must be a 'SignedHeader' in the AWS Authorization."
    assert reply.fault[1:] == ("SignatureDoesNotMatch;Sender", f"{CORAL}InvalidSignatureException", text)


@spec("identity.answer", "identity.frame", "identity.root")
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_caller_of_a_signed_call(door: Door, method: str) -> None:
    reply = await door.query("GetCallerIdentity", version="2011-06-15", service="sts", method=method)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/xml")
    assert reply.body.decode() == (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
        f"<Arn>arn:aws:iam::{ACCOUNT}:root</Arn><UserId>{ACCOUNT}</UserId><Account>{ACCOUNT}</Account>"
        "</GetCallerIdentityResult><ResponseMetadata>"
        f"<RequestId>{reply.headers['x-amzn-requestid']}</RequestId></ResponseMetadata></GetCallerIdentityResponse>"
    )
