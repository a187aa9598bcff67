"""Protocols and endpoints: which can be subscribed, the texts for those that cannot, and masked passwords."""

from __future__ import annotations

import pytest

from cns.endpoint_syntax import check_endpoint_syntax, check_protocol, shown
from common.errors import RequestError

QUEUE = "arn:aws:sqs:eu-west-1:111111111111:q"
MISMATCH = "Endpoint must match the specified protocol"
INLINE = "Endpoint Reason: Please use HTTPS for subscriptions that contain inline credentials"


@pytest.mark.parametrize(("name", "stored"), [("http", "http"), ("https", "https"), ("sqs", "sqs"), ("cqs", "sqs")])
def test_protocols_taken(name: str, stored: str) -> None:
    assert check_protocol(name) == stored


@pytest.mark.parametrize(
    "name", ["", "HTTP", "email", "email-json", "sms", "application", "lambda", "firehose", "redis", "test-protocol"]
)
def test_protocols_refused(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_protocol(name)
    assert refused.value.code == "InvalidParameter"
    assert refused.value.message == f"Invalid parameter: Amazon SNS does not support this protocol string: {name}"


@pytest.mark.parametrize(
    ("protocol", "endpoint"),
    [
        ("http", "http://example.com"),
        ("http", "http://example.com:8080/a?b=c#d"),
        ("http", "HTTP://example.com"),
        ("http", "http://[::1]:80/"),
        ("http", "http://127.0.0.1/x@y"),
        ("https", "https://user:secret@example.com/"),
        ("https", "https://example.com/#fragment"),
        ("sqs", QUEUE),
    ],
)
def test_endpoints_taken(protocol: str, endpoint: str) -> None:
    check_endpoint_syntax(protocol, endpoint)


@pytest.mark.parametrize(
    ("protocol", "endpoint", "complaint"),
    [
        ("http", "https://example.com", MISMATCH),
        ("https", "http://example.com", MISMATCH),
        ("http", "not a url", MISMATCH),
        ("http", QUEUE, MISMATCH),
        ("http", "http://user:secret@example.com", INLINE),
        ("http", "http://user@example.com", INLINE),
        ("http", "http://", "Endpoint"),
        ("http", "http:///path", "Endpoint"),
        ("http", "http://example.com:0/", "Endpoint"),
        ("http", "http://example.com:99999/", "Endpoint"),
        ("http", "http://example.com:x/", "Endpoint"),
        ("http", "http://[::1/", "Endpoint"),
        ("http", "http://example.com/a b", "Endpoint"),
        ("http", "http://example.com/a\r\nHost: x", "Endpoint"),
        ("http", "http://example.com\\@internal/", "Endpoint"),
        ("http", "http://exämple.com/", "Endpoint"),
        ("http", "http://example.com/\ud800", "Endpoint"),
        ("http", "http://example.com/" + "a" * 2048, "Endpoint"),
        ("sqs", "http://localhost:6059/111111111111/q", "SQS endpoint ARN"),
        ("sqs", "arn:aws:sqs:eu-west-1:111111111111:q:x", "SQS endpoint ARN"),
        (
            "sqs",
            QUEUE + ".fifo",
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics",
        ),
    ],
)
def test_endpoints_refused(protocol: str, endpoint: str, complaint: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_endpoint_syntax(protocol, endpoint)
    assert (refused.value.code, refused.value.message) == ("InvalidParameter", f"Invalid parameter: {complaint}")


@pytest.mark.parametrize(
    ("endpoint", "as_shown"),
    [
        ("https://probe:secret@example.com/basic?a=b#c", "https://probe:****@example.com/basic?a=b#c"),
        ("https://probe:a@b:c@example.com:8443/?", "https://probe:****@example.com:8443/?"),
        ("https://probe:@example.com/", "https://probe:****@example.com/"),
        ("https://probe@example.com/", "https://probe@example.com/"),
        ("https://example.com/a:b@c", "https://example.com/a:b@c"),
        (QUEUE, QUEUE),
    ],
)
def test_passwords_are_not_shown(endpoint: str, as_shown: str) -> None:
    assert shown(endpoint) == as_shown
