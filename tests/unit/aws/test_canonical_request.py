"""The canonical spellings of path, query and headers."""

from __future__ import annotations

import pytest

from cns_common.aws.auth.canonical_request import (
    canonical_path,
    canonical_query,
    join_headers,
    reencode,
    split_query,
)


@pytest.mark.spec("sign.path")
@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("", "/"),
        ("/", "/"),
        ("//", "/"),
        ("/.", "/"),
        ("/..", "/"),
        ("/../..", "/"),
        ("/a/..", "/"),
        ("/a/../", "/"),
        ("/a/./b", "/a/b"),
        ("/a//b//", "/a/b/"),
        ("/000000000000/q.fifo", "/000000000000/q.fifo"),
        ("/a/.hidden", "/a/.hidden"),
        ("/a b", "/a%20b"),
        ("/%2e%2E/", "/%252e%252E/"),
        ("/~-_.", "/~-_."),
        ("/a+b@c:d=e", "/a%2Bb%40c%3Ad%3De"),
    ],
)
def test_canonical_path(raw: str, canonical: str) -> None:
    assert canonical_path(raw.encode()) == canonical.encode()


@pytest.mark.spec("sign.query-string", "sign.query-spelling")
@pytest.mark.parametrize(
    ("sent", "canonical", "reencoded_form"),
    [
        ("", "", ""),
        ("a", "a=", "a="),
        ("b=2&a=%7E&a=1&c", "a=%7E&a=1&b=2&c=", "a=1&a=~&b=2&c="),
        ("a=b=c", "a=b=c", "a=b%3Dc"),
        ("a=x+y", "a=x+y", "a=x%20y"),
        ("a=%2b", "a=%2b", "a=%2B"),
        ("ab=1&a=2&A=3", "A=3&a=2&ab=1", "A=3&a=2&ab=1"),
    ],
)
def test_canonical_query(sent: str, canonical: str, reencoded_form: str) -> None:
    pairs = split_query(sent.encode())
    assert canonical_query(pairs) == canonical.encode()
    assert canonical_query(reencode(pairs)) == reencoded_form.encode()


@pytest.mark.spec("sign.header-values")
def test_repeated_headers_are_joined_in_order_of_arrival() -> None:
    headers = [(b"b", b" 2 "), (b"a", b"x"), (b"b", b"1")]
    assert join_headers(headers) == {b"b": b"2,1", b"a": b"x"}
