"""The name of an endpoint in events: what fails together, without passwords and persons."""

from __future__ import annotations

import pytest

from cns.protocols.table import PROTOCOLS

ARN = "arn:aws:sqs:eu-west-1:111111111111:orders"


@pytest.mark.parametrize(
    ("protocol", "endpoint", "name"),
    [
        ("http", "http://Example.com/path?x=1", "example.com"),
        ("http", "http://example.com:80", "example.com"),
        ("http", "http://example.com:8080/a", "example.com:8080"),
        ("https", "https://user:secret@example.com:443/a", "example.com"),
        ("https", "https://[::1]:8443/", "[::1]:8443"),
        ("http", "http://example.com:99999/", ""),
        ("redis", "redis://user:secret@Cache.example:6379/news", "cache.example"),
        ("redis", "rediss://cache.example:6380/news", "cache.example:6380"),
        ("redis", "redis://[::1]:6380/news", "[::1]:6380"),
        ("redis", "redis://[::1/news", ""),
        ("redis", "redis://cache.example:port/news", ""),
        ("sqs", ARN, ARN),
        (
            "lambda",
            "arn:aws:lambda:eu-west-1:111111111111:function:f",
            "arn:aws:lambda:eu-west-1:111111111111:function:f",
        ),
        (
            "application",
            "arn:aws:sns:eu-west-1:111111111111:endpoint/GCM/shop/0f0f0f0f-0000-4000-8000-000000000000",
            "arn:aws:sns:eu-west-1:111111111111:endpoint/GCM/shop",
        ),
        ("email", "Jane.Doe@Example.com", "example.com"),
        ("email-json", "jane@example.com", "example.com"),
        ("sms", "+15550100", ""),
    ],
)
def test_the_name_of_an_endpoint(protocol: str, endpoint: str, name: str) -> None:
    assert PROTOCOLS[protocol].endpoint_name(endpoint) == name
