"""Protocols and endpoints: which can be subscribed, the texts for those that cannot, and masked passwords."""

from __future__ import annotations

import pytest

from cns.endpoints.redis_request import redis_channel
from cns.protocols.table import find_protocol
from cns.subscriptions.endpoint_syntax import (
    account_of,
    check_endpoint,
    check_pairing,
    check_protocol,
    masked_endpoint,
)
from cns_common.errors import RequestError
from tests.unit.sns.refusals import complaint_of

QUEUE = "arn:aws:sqs:eu-west-1:111111111111:q"
FUNCTION = "arn:aws:lambda:eu-west-1:111111111111:function:f"
STREAM = "arn:aws:firehose:eu-west-1:111111111111:deliverystream/s"
PHONE = "arn:aws:sns:eu-west-1:111111111111:endpoint/GCM/app/6ab180b4-f6c7-4ab5-8747-757d1d466e12"
MISMATCH = "Endpoint must match the specified protocol"
INLINE = "Endpoint Reason: Please use HTTPS for subscriptions that contain inline credentials"
CHANNEL = "Endpoint Reason: must be redis://host:port/channel"


@pytest.mark.parametrize(
    "name",
    ["http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose", "redis"],
)
def test_protocols_taken(name: str) -> None:
    assert check_protocol(name) == name


def test_the_original_s_name_for_a_queue() -> None:
    assert check_protocol("cqs") == "sqs"


@pytest.mark.spec("subscribing.protocol-unknown")
@pytest.mark.parametrize("name", ["", "HTTP", "Email", "rediss", "SQS", "test-protocol"])
def test_protocols_refused(name: str) -> None:
    assert complaint_of(check_protocol, name) == f"Amazon SNS does not support this protocol string: {name}"


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
        ("sqs", QUEUE + ".fifo"),
        ("email", "someone@example.com"),
        ("email-json", "a.b+c@mail.example.co.uk"),
        ("email", "me@localhost"),
        ("sms", "+15551234567"),
        ("sms", "15551234567"),
        ("application", PHONE),
        ("lambda", FUNCTION),
        ("lambda", FUNCTION + ":$LATEST"),
        ("lambda", FUNCTION + ":alias"),
        ("firehose", STREAM),
        ("redis", "redis://localhost/events"),
        ("redis", "redis://user:secret@redis.example.com:6380/a/b"),
        ("redis", "rediss://[::1]:6380/a%20b"),
    ],
)
def test_endpoints_taken(protocol: str, endpoint: str) -> None:
    assert check_endpoint(protocol, endpoint) == endpoint


@pytest.mark.parametrize("endpoint", ["+1555-123-4567", "+1.555.123.4567", "+1/555-123.4567"])
def test_phone_numbers_are_stored_in_one_form(endpoint: str) -> None:
    assert check_endpoint("sms", endpoint) == "+15551234567"


@pytest.mark.spec(
    "subscribing.endpoint-http",
    "subscribing.endpoint-sqs",
    "subscribing.endpoint-email",
    "subscribing.endpoint-application",
    "subscribing.endpoint-lambda",
    "subscribing.endpoint-firehose",
    "subscribing.credentials-http",
)
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
        ("email", "this is not an email", "Email address"),
        ("email", "foo@bar.com;foo@example.com", "Email address"),
        ("email", "a@b\r\nBcc: c@d", "Email address"),
        ("email", "ä@example.com", "Email address"),
        ("email-json", "https://example.com/", "Email address"),
        ("email-json", "a@" + "b" * 400, "Email address"),
        ("application", "invalid arn", "Application endpoint arn invalid:invalid arn"),
        (
            "application",
            "arn:aws:sns:eu-west-1:111111111111:t",
            "Application endpoint arn invalid:arn:aws:sns:eu-west-1:111111111111:t",
        ),
        ("lambda", "f", "Lambda endpoint ARN"),
        ("lambda", QUEUE, "Lambda endpoint ARN"),
        ("lambda", "arn:aws:lambda:eu-west-1:111111111111:layer:f", "Lambda endpoint ARN"),
        ("firehose", "arn:aws:firehose:eu-west-1:1:deliverystream/s", "Firehose endpoint ARN"),
        ("firehose", FUNCTION, "Firehose endpoint ARN"),
        ("redis", "http://localhost/events", MISMATCH),
        ("redis", "redis://localhost", CHANNEL),
        ("redis", "redis://localhost/", CHANNEL),
        ("redis", "redis:///events", CHANNEL),
        ("redis", "redis://localhost:x/events", CHANNEL),
        ("redis", "redis://localhost/events?db=1", CHANNEL),
        ("redis", "redis://localhost/a\r\nFLUSHALL", CHANNEL),
    ],
)
def test_endpoints_refused(protocol: str, endpoint: str, complaint: str) -> None:
    assert complaint_of(check_endpoint, protocol, endpoint) == complaint


@pytest.mark.spec("subscribing.endpoint-sms")
@pytest.mark.parametrize(
    "endpoint",
    ["NAA+15551234567", "+1555--1234", "+15551234-", "+01555", "+1555123456789012", "{0.__class__}", "+1555\u0661"],
)
def test_phone_numbers_refused(endpoint: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_endpoint("sms", endpoint)
    # without AWS's usual prefix
    assert (refused.value.code, refused.value.message) == ("InvalidParameter", f"Invalid SMS endpoint: {endpoint}")


@pytest.mark.spec("subscribing.fifo-queue")
@pytest.mark.parametrize(
    ("protocol", "endpoint", "fifo_topic", "complaint"),
    [
        ("sqs", QUEUE, False, ""),
        ("sqs", QUEUE, True, ""),
        ("sqs", QUEUE + ".fifo", True, ""),
        ("https", "https://example.com/a.fifo", False, ""),
        (
            "sqs",
            QUEUE + ".fifo",
            False,
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics",
        ),
        ("lambda", FUNCTION, True, "Invalid protocol type: lambda"),
        ("sms", "+15551234567", True, "Invalid protocol type: sms"),
        ("redis", "redis://localhost/events", True, "Invalid protocol type: redis"),
    ],
)
def test_which_endpoints_go_with_which_topics(protocol: str, endpoint: str, fifo_topic: bool, complaint: str) -> None:
    if not complaint:
        check_pairing(protocol, endpoint, fifo_topic=fifo_topic)
        return
    with pytest.raises(RequestError) as refused:
        check_pairing(protocol, endpoint, fifo_topic=fifo_topic)
    # AWS doubles the prefix of one of them
    assert refused.value.message == f"Invalid parameter: {complaint}"


@pytest.mark.parametrize(
    ("protocol", "endpoint", "account"),
    [
        ("sqs", QUEUE, "111111111111"),
        ("lambda", FUNCTION, "111111111111"),
        ("firehose", STREAM, "111111111111"),
        ("application", PHONE, "111111111111"),
        ("https", "https://arn:aws:sqs:eu-west-1:111111111111:q", None),
        ("email", "a@example.com", None),
    ],
)
def test_whose_an_endpoint_is(protocol: str, endpoint: str, account: str | None) -> None:
    assert account_of(protocol, endpoint) == account


def test_a_protocol_of_another_version_can_do_nothing() -> None:
    """Its subscriptions are still shown and removed after a release that does not know it."""
    assert account_of("nats", "nats://example.com/a") is None
    assert (find_protocol("nats").endpoint_name("nats://example.com/a"), find_protocol("nats").takes_raw) == ("", False)


@pytest.mark.parametrize(
    ("endpoint", "channel"),
    [
        ("redis://h/events", "events"),
        ("redis://h:1/a/b", "a/b"),
        ("rediss://h/a%20b%2F", "a b/"),
        ("redis://h//x", "/x"),
    ],
)
def test_the_channel_is_all_of_the_path(endpoint: str, channel: str) -> None:
    assert redis_channel(endpoint) == channel


@pytest.mark.parametrize(
    ("endpoint", "as_shown"),
    [
        ("https://probe:secret@example.com/basic?a=b#c", "https://probe:****@example.com/basic?a=b#c"),
        ("https://probe:a@b:c@example.com:8443/?", "https://probe:****@example.com:8443/?"),
        ("https://probe:@example.com/", "https://probe:****@example.com/"),
        ("https://probe@example.com/", "https://probe@example.com/"),
        ("https://example.com/a:b@c", "https://example.com/a:b@c"),
        ("HTTPS://probe:secret@example.com/", "HTTPS://probe:****@example.com/"),
        ("redis://:secret@example.com/c", "redis://:****@example.com/c"),
        ("rediss://probe:secret@example.com/c", "rediss://probe:****@example.com/c"),
        ("someone@example.com", "someone@example.com"),
        (QUEUE, QUEUE),
    ],
)
def test_passwords_are_not_shown(endpoint: str, as_shown: str) -> None:
    assert masked_endpoint(endpoint) == as_shown
