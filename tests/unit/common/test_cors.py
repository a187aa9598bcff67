"""Which origins a browser is told to admit."""

from __future__ import annotations

import pytest

from cns_common.aws.call import WhenGone
from cns_common.aws.cors import CorsPolicy
from cns_common.aws.http_request import HttpRequest


def request(origin: str, method: str = "POST", **fields: str) -> HttpRequest:
    headers = [(b"origin", origin.encode())] if origin else []
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    gone: WhenGone = lambda _: None  # noqa: E731  # nobody leaves
    return HttpRequest(method, "/", b"/", b"", headers, "http", "", gone)


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ("https://app.example.com", "https://app.example.com", "https://app.example.com"),
        ("https://a.example.com https://b.example.com", "https://b.example.com", "https://b.example.com"),
        ("http://localhost:*", "http://localhost:3000", "http://localhost:3000"),
        ("http://localhost:*", "http://localhost", "http://localhost"),
        ("*", "https://anywhere.example.com", "*"),
        ("https://app.example.com", "http://app.example.com", ""),
        ("https://app.example.com", "https://app.example.com:8443", ""),
        ("https://app.example.com", "https://app.example.com.evil.example", ""),
        ("https://app.example.com", "https://appxexample.com", ""),
        ("http://localhost:*", "http://localhost:300000", ""),
        ("http://localhost:*", "http://localhost:3000.evil.example", ""),
        ("http://localhost:*", "http://localhost.evil.example:80", ""),
        ("https://app.example.com", "null", ""),
        ("https://app.example.com", "", ""),
    ],
)
def test_origins(origins: str, origin: str, allowed: str) -> None:
    policy = CorsPolicy(origins.split())
    asked = request(origin, "OPTIONS", access_control_request_method="POST")
    preflight = policy.preflight(asked.method, asked.fields)
    assert preflight is not None and preflight.status == 204
    for headers in (dict(preflight.headers), dict(policy.headers(asked.fields))):
        assert headers.get(b"access-control-allow-origin", b"") == allowed.encode()
        assert headers.get(b"vary") == (None if allowed == "*" else b"origin")
        assert b"access-control-allow-credentials" not in headers
    assert (b"access-control-allow-headers" in dict(preflight.headers)) == bool(allowed)
    assert policy.preflight("OPTIONS", request(origin).fields) is None
    assert policy.preflight("POST", asked.fields) is None
