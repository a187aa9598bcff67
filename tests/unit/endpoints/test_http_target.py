"""The parts of a request from its URL: address, Host header, request target and credentials."""

from __future__ import annotations

import pytest

from cns.endpoints.http_auth import EndpointCredentials
from cns.endpoints.http_url import HttpOrigin, HttpTarget, target_of


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://a.test", HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/", None)),
        ("https://a.test", HttpTarget(HttpOrigin(True, "a.test", 443), "a.test", "/", None)),
        ("HTTPS://A.Test/P?Q", HttpTarget(HttpOrigin(True, "a.test", 443), "a.test", "/P?Q", None)),
        ("http://a.test:80/", HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/", None)),
        ("https://a.test:80/", HttpTarget(HttpOrigin(True, "a.test", 80), "a.test:80", "/", None)),
        ("http://a.test:/x", HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/x", None)),
        ("http://a.test?q#f", HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/?q", None)),
        ("http://a.test/@b:c", HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/@b:c", None)),
        ("http://a.test/é", HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/é", None)),
        ("http://[::1]:8080/", HttpTarget(HttpOrigin(False, "::1", 8080), "[::1]:8080", "/", None)),
        ("http://[2001:DB8::1]", HttpTarget(HttpOrigin(False, "2001:db8::1", 80), "[2001:db8::1]", "/", None)),
        (
            "http://bücher.test/",
            HttpTarget(HttpOrigin(False, "xn--bcher-kva.test", 80), "xn--bcher-kva.test", "/", None),
        ),
        (
            "http://u:p@a.test/",
            HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/", EndpointCredentials("u", "p")),
        ),
        (
            "http://u@x:p:w@a.test/",
            HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/", EndpointCredentials("u@x", "p:w")),
        ),
        (
            "http://%41:%2F%40@a.test/",
            HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/", EndpointCredentials("A", "/@")),
        ),
        ("http://@a.test/", HttpTarget(HttpOrigin(False, "a.test", 80), "a.test", "/", EndpointCredentials("", ""))),
    ],
)
def test_what_a_url_says(url: str, target: HttpTarget) -> None:
    assert target_of(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http:///path",
        "http://:80/",
        "http://u:p@/",
        "ftp://a.test/",
        "//a.test/",
        "http:a.test",
        "http://a.test:0/",
        "http://a.test:65536/",
        "http://a.test:99999/",
        "http://a.test:x/",
        "http://a.test:٣/",
        "http://::1/",
        "http://[::1/",
        "http://[a.test]/",
        "http://a test/",
        "http://a.test/a b",
        "http://a.test/a\r\nX: y",
        "http://a.test/\x00",
        "http://a.test\n/",
        "http://a..é.test/",
    ],
)
def test_what_cannot_be_posted_to(url: str) -> None:
    assert target_of(url) is None
